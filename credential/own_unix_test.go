// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build unix

package credential_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evenkeel-go/evenkeel/credential"
)

func TestAFileOfTheCacheThatSomebodyElseCouldHaveMadeCountsAsNone(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]func(t *testing.T, path string){
		"a pipe": func(t *testing.T, path string) {
			check(t, os.Remove(path))
			check(t, syscall.Mkfifo(path, 0o600))
		},
		"a symbolic link": func(t *testing.T, path string) {
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			check(t, os.Rename(path, elsewhere))
			check(t, os.Symlink(elsewhere, path))
		},
		"of another user": func(t *testing.T, path string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			check(t, os.Chown(path, 1234, 1234))
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			e := &endpoint{}
			wantToken(t, at(t, cachedIn(t, folder), place(e)), "token-1")
			spoil(t, onlyFile(t, folder))
			wantToken(t, at(t, cachedIn(t, folder), place(e)), "token-2")
		})
	}
}

func TestAFolderThatOthersMayWriteIsReportedAndNotUsed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	e := &endpoint{}
	wantToken(t, at(t, cachedIn(t, folder), place(e)), "token-1")
	if err := os.Chmod(folder, 0o777); err != nil { //nolint:gosec // that is the point
		t.Fatal(err)
	}
	var failure error
	s := newSource(t, func(c *credential.ClientCredentialsConfig) {
		c.CacheDir, c.CacheFailed = folder, func(err error) { failure = err }
	})
	b := at(t, s, place(e))
	wantToken(t, b, "token-2")
	b.Close()
	if failure == nil || !strings.Contains(failure.Error(), "others") {
		t.Errorf("the failure is %v, want one that says that others may write there", failure)
	}
}

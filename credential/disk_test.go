// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/credential"
)

// cachedIn makes a source that keeps its tokens in a folder.
func cachedIn(t *testing.T, folder string) *credential.Source {
	t.Helper()
	return newSource(t, func(c *credential.ClientCredentialsConfig) {
		c.CacheDir = folder
		c.CacheFailed = func(err error) { t.Errorf("the cache failed: %v", err) }
	})
}

// onlyFile is the path of the one file in a folder.
func onlyFile(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Fatalf("the folder has %v, %v, want one file", entries, err)
	}
	return filepath.Join(folder, entries[0].Name())
}

func TestTheNextProgramUsesTheTokenOnDisk(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new", "folder")
	e := &endpoint{}
	wantToken(t, at(t, cachedIn(t, folder), place(e)), "token-1")
	wantToken(t, at(t, cachedIn(t, folder), place(e)), "token-1")
	if n := len(e.times()); n != 1 {
		t.Errorf("%d requests by two programs, want 1", n)
	}
	path := onlyFile(t, folder)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the mode of the file is %o, want 600", got)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte(planted)) || strings.Contains(path, "app") {
		t.Errorf("the file %s shows the secret or its name the client: %s", path, content)
	}
}

func TestAnotherEndpointOrClientHasAnotherFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	e := &endpoint{}
	wantToken(t, at(t, cachedIn(t, folder), place(e)), "token-1")
	other := place(e)
	other.URL = "https://node-2.example:35000/connect/token"
	wantToken(t, at(t, cachedIn(t, folder), other), "token-2")
	third := newSource(t, func(c *credential.ClientCredentialsConfig) { c.CacheDir, c.ClientID = folder, "third" })
	wantToken(t, at(t, third, place(e)), "token-3")
}

func TestATokenOnDiskIsForTheSecretItWasGivenFor(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	e := &endpoint{}
	wantToken(t, at(t, cachedIn(t, folder), place(e)), "token-1")
	rotated := newSource(t, func(c *credential.ClientCredentialsConfig) {
		c.CacheDir, c.ClientSecret = folder, secretOf("another secret")
	})
	wantToken(t, at(t, rotated, place(e)), "token-2")
}

func TestAFileThatIsNoTokenCountsAsNone(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, path string){
		"empty":   func(t *testing.T, path string) { overwrite(t, path, nil) },
		"cut off": func(t *testing.T, path string) { overwrite(t, path, []byte(`{"endpoint":"htt`)) },
		"huge":    func(t *testing.T, path string) { overwrite(t, path, bytes.Repeat([]byte(" "), 1<<20)) },
		"a folder": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"open to others": func(t *testing.T, path string) {
			if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // that is the point
				t.Fatal(err)
			}
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "open to others" && runtime.GOOS == "windows" {
				t.Skip("files have no modes here")
			}
			folder := t.TempDir()
			e := &endpoint{}
			source := func() *credential.Source {
				return newSource(t, func(c *credential.ClientCredentialsConfig) { c.CacheDir = folder })
			}
			wantToken(t, at(t, source(), place(e)), "token-1")
			spoil(t, onlyFile(t, folder))
			wantToken(t, at(t, source(), place(e)), "token-2")
		})
	}
}

func overwrite(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFolderThatCannotBeWrittenIsReportedAndNothingElse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	overwrite(t, file, nil)
	var failure error
	s := newSource(t, func(c *credential.ClientCredentialsConfig) {
		c.CacheDir, c.CacheFailed = filepath.Join(file, "below"), func(err error) { failure = err }
	})
	b := at(t, s, place(&endpoint{}))
	wantToken(t, b, "token-1")
	b.Close()
	if failure == nil || strings.Contains(failure.Error(), "token-1") {
		t.Errorf("the failure is %v, want one that shows no token", failure)
	}
}

// fileOf is the content of a file of the cache.
func fileOf(t testing.TB, obtained, expires time.Time) []byte {
	t.Helper()
	content, err := json.Marshal(map[string]any{
		"endpoint": "https://a", "client": "app", "token": "Bearer abc", "obtained": obtained, "expires": expires,
	})
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestTheAgeOfATokenOnDisk(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name              string
		obtained, expires time.Duration // from now
		want              time.Duration // 0 for none
	}{
		{"half its life", -time.Hour, time.Hour, time.Hour},
		{"expired", -2 * time.Hour, -time.Second, 0},
		{"from the future, the clock was set back", 2 * time.Hour, 3 * time.Hour, 0},
		{"for ever", -time.Hour, 1000 * 24 * time.Hour, 30 * 24 * time.Hour},
	}
	for _, tt := range tests {
		content := fileOf(t, now.Add(tt.obtained), now.Add(tt.expires))
		_, life, ok := credential.ParseCachedForTest(content, "https://a", "app", now)
		if life != tt.want && ok || ok != (tt.want > 0) {
			t.Errorf("%s: life %v, used %v, want %v", tt.name, life, ok, tt.want)
		}
	}
}

func FuzzCachedToken(f *testing.F) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Add(fileOf(f, now, now.Add(time.Hour)))
	f.Add([]byte(`{"endpoint":"https://a","client":"app","token":"Bearer a\nb","expires":"2031-01-01T00:00:00Z"}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, content []byte) {
		header, life, ok := credential.ParseCachedForTest(content, "https://a", "app", now)
		bare, _ := strings.CutPrefix(header, "Bearer ")
		if ok && (!credential.SendableForTest(bare) || life <= 0 || life > 30*24*time.Hour) {
			t.Errorf("used %q for %v", header, life)
		}
	})
}

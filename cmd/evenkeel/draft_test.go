// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "page.html")
	link := filepath.Join(dir, "link.html")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o640), os.Symlink("page.html", link)); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for _, test := range []struct {
		name, text, want string
		err              error
	}{
		{"broken off", "half a p", "old", broken},
		{"complete", "new", "new", nil},
	} {
		d, err := beginDraft(link)
		if err != nil {
			t.Fatal(err)
		}
		err = d.keep(func(w io.Writer) error {
			_, err := io.WriteString(w, test.text)
			return errors.Join(err, test.err)
		})
		d.drop()
		if !errors.Is(err, test.err) {
			t.Errorf("%s: got %v, want %v", test.name, err, test.err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.name, got, err, test.want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("got %v, %v left behind, want the file and the link", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("got %v, %v, want the mode of the file before", info.Mode(), err)
	}
}

func TestAPlaceThatCannotBeWrittenIsToldAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing", "page.html")} {
		if got := call(t, nil, "", "simulate", "--clients", "10", "--servers", "2", "--html", path); got.status != exitFailed || got.stdout != "" {
			t.Errorf("%s: status %d and %q, want a failure before the simulation", path, got.status, got.stdout)
		}
	}
}

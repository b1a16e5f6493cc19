// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestDocumentsKeepTheirWidth wants the lines of running text in documents to fit an editor. Tables and code are as wide
// as they are.
func TestDocumentsKeepTheirWidth(t *testing.T) {
	t.Parallel()
	const widest = 130
	documents := 0
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enterDocuments(name)
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		documents++
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		number, code := 0, false
		for line := range strings.Lines(string(text)) {
			number++
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if w := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); w > widest && !code && line[0] != '|' && !strings.HasPrefix(line, "    ") {
				t.Errorf("%s:%d: a line of %d columns, want %d at most", name, number, w, widest)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if documents < 5 {
		t.Errorf("found %d documents: the test does not run in the root of the module", documents)
	}
}

// enterDocuments returns fs.SkipDir for a folder that has no documents of ours.
func enterDocuments(name string) error {
	base := filepath.Base(name)
	if name != "." && (base == "testdata" || base == "bin" || strings.HasPrefix(base, ".")) {
		return fs.SkipDir
	}
	return nil
}

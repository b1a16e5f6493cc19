// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, line  string
		width, hang int
		want        []string
	}{
		{name: "fits", line: "a line of twenty col", width: 20, want: []string{"a line of twenty col"}},
		{name: "one too many", line: "a line of twenty-1 col", width: 20, want: []string{"a line of twenty-1", "col"}},
		{
			name: "hangs", line: "  - a line that goes on and on", width: 20, hang: 4,
			want: []string{"  - a line that goes", "    on and on"},
		},
		{
			name: "a word that does not fit stays whole", line: "see chronicle+srv://prod.example now", width: 20, hang: 2,
			want: []string{"see", "  chronicle+srv://prod.example", "  now"},
		},
		{name: "no terminal", line: strings.Repeat("word ", 50), width: 0, want: []string{strings.Repeat("word ", 50)}},
		{name: "too narrow to help", line: "a line of twenty columns", width: 10, want: []string{"a line of twenty columns"}},
		{name: "nothing", width: 40, want: []string{""}},
		{
			name: "colours take no room", line: "\x1b[32mgreen\x1b[m green green g", width: 20,
			want: []string{"\x1b[32mgreen\x1b[m green green g"},
		},
		{name: "hyphens stay", line: "picks it by least-connections", width: 20, want: []string{"picks it by", "least-connections"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, wrap(tt.line, tt.width, tt.hang)); diff != "" {
				t.Errorf("lines, -want +got:\n%s", diff)
			}
		})
	}
}

func TestWrapKeepsAllWordsAndTheWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-zä]{1,15}`)).Draw(t, "words")
		width, hang := rapid.IntRange(narrowest, 60).Draw(t, "width"), rapid.IntRange(0, 5).Draw(t, "hang")
		lines := wrap(strings.Join(words, " "), width, hang)
		if got := strings.Fields(strings.Join(lines, " ")); strings.Join(got, " ") != strings.Join(words, " ") {
			t.Fatalf("got %q, want the words %q", got, words)
		}
		for _, line := range lines {
			if w := ansi.StringWidth(line); w > width {
				t.Fatalf("a line of %d columns, want %d at most: %q", w, width, line)
			}
		}
	})
}

// aTerminal is a stream that is taken for a terminal of 80 columns.
func aTerminal(t *testing.T) screen {
	t.Helper()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // only read
	return screen{file: file}
}

func TestComplaintsFitATerminal(t *testing.T) {
	t.Parallel()
	long := strings.TrimSpace(strings.Repeat("complaint ", 20))
	for _, terminal := range []bool{false, true} {
		var stderr bytes.Buffer
		c := newConsole(nil, nil, &stderr, &stderr)
		want := 1
		if terminal {
			c.errScreen, want = aTerminal(t), 3
		}
		c.complain("%s", long)
		lines := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
		if len(lines) != want {
			t.Errorf("on a terminal %v: got %d lines, want %d:\n%s", terminal, len(lines), want, stderr.String())
		}
	}
}

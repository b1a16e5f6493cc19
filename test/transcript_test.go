// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
)

// transcript is what a process writes, line by line as it comes. It is safe for concurrent use.
type transcript struct {
	mu      sync.Mutex
	lines   []string      // guarded by mu; whole ones, without their ends
	rest    []byte        // guarded by mu; the beginning of the next one
	changed chan struct{} // guarded by mu; closed and replaced when a line is complete
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

// Write takes in what the process wrote.
func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.lines = append(w.lines, string(line))
		w.rest = bytes.Clone(rest)
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// String returns all of it so far.
func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, line := range w.lines {
		b.WriteString(line + "\n")
	}
	b.Write(w.rest)
	return b.String()
}

// snapshot returns the whole lines so far, and a channel that is closed when there is another.
func (w *transcript) snapshot() (lines []string, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines[:len(w.lines):len(w.lines)], w.changed
}

// await returns when holds is true for the lines so far. The error says that ctx or the process ended before; what the
// process wrote last is looked at all the same.
func (w *transcript) await(ctx context.Context, ended <-chan struct{}, holds func(lines []string) bool) error {
	for over := false; ; {
		lines, changed := w.snapshot()
		switch {
		case holds(lines):
			return nil
		case over:
			return fmt.Errorf("the process ended after %d lines", len(lines))
		}
		select {
		case <-changed:
		case <-ended:
			over = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

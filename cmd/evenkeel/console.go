// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/term"
)

// console is where a command reads and writes, and what it may do there.
type console struct {
	in  io.Reader
	out *stickyWriter
	err io.Writer
	env []string

	outScreen, errScreen screen
}

// screen says what a stream can show. Its zero value is no terminal.
type screen struct {
	file   *os.File // nil when it is no terminal that can move its cursor
	colour bool
}

func newConsole(env []string, stdin io.Reader, stdout, stderr io.Writer) *console {
	c := &console{in: stdin, out: &stickyWriter{w: stdout}, err: &lockedWriter{w: stderr}, env: env}
	c.outScreen, c.errScreen = c.screenOf(stdout), c.screenOf(stderr)
	return c
}

// screenOf honours TERM=dumb and NO_COLOR (https://no-color.org: set and not empty).
func (c *console) screenOf(w io.Writer) screen {
	kind, _ := c.getenv("TERM")
	noColour, _ := c.getenv("NO_COLOR")
	file, ok := w.(*os.File)
	if !ok || !isTerminal(file) || kind == "dumb" {
		return screen{}
	}
	lipgloss.EnableLegacyWindowsANSI(file)
	return screen{file: file, colour: noColour == ""}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(f.Fd()) }

// live says whether lines on it can be drawn anew.
func (s screen) live() bool { return s.file != nil }

// size returns the columns and lines of a terminal, and a usual size where it does not tell.
func (s screen) size() (width, height int) {
	if s.file != nil {
		if w, h, err := term.GetSize(s.file.Fd()); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 80, 24
}

// getenv returns the last value of a variable, as the operating system does, and whether there is one.
func (c *console) getenv(name string) (value string, found bool) {
	for i := len(c.env) - 1; i >= 0; i-- {
		if value, found := strings.CutPrefix(c.env[i], name+"="); found {
			return value, true
		}
	}
	return "", false
}

// printf writes a line of the result.
func (c *console) printf(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

// complaintHang is how far the further lines of a long complaint are indented.
const complaintHang = 2

// complain writes a line that is no result: progress, a warning, an error. A terminal gets it in several when it is long.
func (c *console) complain(format string, args ...any) {
	for _, line := range wrap(fmt.Sprintf(format, args...), c.errScreen.wrapWidth(), complaintHang) {
		// Standard error is the last place to tell anything.
		_, _ = fmt.Fprintln(c.err, line)
	}
}

// object writes one JSON object on a line of its own.
func (c *console) object(v any) {
	encoder := json.NewEncoder(c.out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil && c.out.failure == nil {
		c.out.failure = err // unreachable for the types of this package, and never to be silent about
	}
}

// lockedWriter is standard error, where a server logs, and a certificate that has changed is reported, from any goroutine.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// stickyWriter keeps the first error, so that a command can print without asking each time and still fails when its
// result was lost.
type stickyWriter struct {
	w       io.Writer
	failure error
}

func (s *stickyWriter) Write(p []byte) (int, error) {
	if s.failure != nil {
		return 0, s.failure
	}
	n, err := s.w.Write(p)
	s.failure = err
	return n, err
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && unix

package test_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// awaitUnconnected waits until no server holds a connection. It needs Linux, and does nothing elsewhere.
func (c *chaosCluster) awaitUnconnected(ctx context.Context) {
	c.t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience) // for all of them
	defer cancel()
	for _, s := range c.live() {
		sockets := -1
		// What it listens on is one.
		if !until(ctx, func() bool { sockets = countSockets(c.t, s.process.cmd.Process.Pid); return sockets == 1 }) {
			c.t.Errorf("%s holds %d sockets after its last client has gone, want the one that it listens on", s.name, sockets)
		}
	}
}

// countSockets is how many sockets a process holds.
func countSockets(t *testing.T, pid int) int {
	t.Helper()
	entries, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	sockets := 0
	for _, entry := range entries {
		// One that was closed meanwhile is none.
		if what, err := os.Readlink(entry); err == nil && strings.HasPrefix(what, "socket:") {
			sockets++
		}
	}
	return sockets
}

// left is what a test may leave behind in its process.
type left struct{ descriptors, children int }

// leftovers counts the open descriptors and the children of this process, on Linux.
func leftovers(t *testing.T) left {
	t.Helper()
	if runtime.GOOS != "linux" {
		return left{}
	}
	descriptors, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return left{descriptors: len(descriptors), children: children(t)}
}

// children is how many children this process has, those included that have ended and were not waited for.
func children(t *testing.T) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range stats {
		content, err := os.ReadFile(name)
		if err != nil {
			continue // it has gone meanwhile
		}
		// The name of the program, in parentheses, may have anything in it; then follow its state and its parent.
		fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
		if len(fields) > 1 && fields[1] == number(os.Getpid()) {
			n++
		}
	}
	return n
}

// awaitLeftovers waits until there is no more than there was before.
func awaitLeftovers(ctx context.Context, t *testing.T, before left) {
	t.Helper()
	var now left
	if !until(ctx, func() bool {
		now = leftovers(t)
		return now.descriptors <= before.descriptors && now.children <= before.children
	}) {
		t.Errorf("%+v are left, and there were %+v before", now, before)
	}
}

// until looks until something holds, for as long as patience lasts.
func until(ctx context.Context, holds func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(chaosLook)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	// patience bounds every wait. Nothing takes as long unless it is broken.
	patience = 30 * time.Second
	// buildLimit bounds how long the command may take to build, with nothing in the cache.
	buildLimit = 5 * time.Minute
)

// evenkeel is the path of the command under test.
var evenkeel string

func TestMain(m *testing.M) {
	flag.Parse()
	letTestsWait()
	directory, err := os.MkdirTemp("", "evenkeel-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // there is nowhere to build
	}
	end := func(status int) {
		if err := os.RemoveAll(directory); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(status) //nolint:forbidigo // goleak leaves that to its Cleanup
	}
	evenkeel = filepath.Join(directory, program("evenkeel"))
	if err := build(evenkeel, "..", "./cmd/evenkeel"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		end(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(end))
}

// letTestsWait lets more tests run at a time than there are processors, unless the caller has said how many: most of them
// wait for others most of the time, and quiet keeps those apart that do not.
func letTestsWait() {
	const name = "test.parallel"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	if err := flag.Set(name, "16"); err != nil {
		fmt.Fprintln(os.Stderr, err) // it only takes longer then
	}
}

// quiet keeps tests that measure times away from each other and from tests that keep the processors busy. Only tests
// without parallel subtests may hold it, since those could be kept waiting for a place by tests that wait for quiet.
var quiet sync.RWMutex

// alone runs a test that measures times: in parallel with those only that do nothing but wait.
func alone(t *testing.T) {
	t.Helper()
	t.Parallel()
	quiet.Lock()
	t.Cleanup(quiet.Unlock)
}

// busy runs a test that measures nothing, in parallel with others of its kind.
func busy(t *testing.T) {
	t.Helper()
	t.Parallel()
	quiet.RLock()
	t.Cleanup(quiet.RUnlock)
}

// build builds a program of the module in a directory, without the race detector in any case: the suites measure times,
// and the tests beside the code look for races.
func build(to, directory, pkg string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, pkg)
	cmd.Dir = directory
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, output)
	}
	return nil
}

// program is the name of a program's file.
func program(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// within bounds what a test waits for.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

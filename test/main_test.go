// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	directory, err := os.MkdirTemp("", "evenkeel-test-")
	if err == nil {
		evenkeel = filepath.Join(directory, program("evenkeel"))
		err = build(evenkeel, "..", "./cmd/evenkeel")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // there is nothing to test
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if err := os.RemoveAll(directory); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(status) //nolint:forbidigo // that is what goleak leaves to its Cleanup
	}))
}

// build builds a program of the module in a directory, without the race detector in any case: the suites measure times,
// and the tests beside the code look for races.
func build(to, directory, pkg string, env ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, pkg)
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), env...)
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

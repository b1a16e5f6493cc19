// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"evenkeel": main})
}

// leakChecked finds goroutines that the tests of this process have left behind. It hands the exit code back, since
// testscript has to clean up after it.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := 0
	goleak.VerifyTestMain(l.m, goleak.Cleanup(func(exitCode int) { code = exitCode }))
	return code
}

// called is what a call of the command brought.
type called struct {
	status         int
	stdout, stderr string
}

// call runs the command in this process, with an environment of its own.
func call(t *testing.T, env []string, stdin string, args ...string) called {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), args, env, bytes.NewBufferString(stdin), &stdout, &stderr)
	return called{status: status, stdout: stdout.String(), stderr: stderr.String()}
}

// golden compares a text with a file in testdata, or writes the file with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: unexpected picture, -want +got (go test -update writes it anew):\n%s", path, diff)
	}
}

// cancelled returns a context that has ended already.
func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	return ctx
}

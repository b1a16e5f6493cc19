// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// processLimit ends a process that its test has lost sight of.
	processLimit = 2 * time.Minute
	// outputLimit is how long output is waited for that somebody else holds open.
	outputLimit = 5 * time.Second
)

// process is a program that runs, or has run, for a test.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	cancel context.CancelFunc // kills it

	out, errs *transcript
	ended     chan struct{} // closed when the process has ended and its output is complete
	err       error         // why it ended; to be read after ended
}

// start starts a program, which is killed when the test ends.
func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := launch(t, processLimit, path, args...)
	t.Cleanup(func() {
		p.end()
		p.report()
	})
	return p
}

// launch starts a program that the caller ends, with end; it is killed after the limit in any case.
func launch(t *testing.T, limit time.Duration, path string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	p := &process{
		t: t, name: filepath.Base(path) + " " + strings.Join(args[:min(1, len(args))], ""), cancel: cancel,
		out: newTranscript(), errs: newTranscript(), ended: make(chan struct{}),
	}
	p.cmd = exec.CommandContext(ctx, path, args...)
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.errs
	p.cmd.WaitDelay = outputLimit
	if err := p.cmd.Start(); err != nil {
		cancel()
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	return p
}

// end kills the process unless it has ended, waits for that, and looks for what must never be written.
func (p *process) end() {
	p.t.Helper()
	p.cancel()
	<-p.ended
	stderr := p.errs.String()
	for _, never := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if strings.Contains(stderr, never) {
			p.t.Errorf("%s wrote %q:\n%s", p.name, never, tail(stderr))
		}
	}
}

// environment is that of the tests without what would change where programs connect to.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		name = strings.ToUpper(name)
		return name == "CHRONICLE_CONNECTION_STRING" || strings.HasSuffix(name, "_PROXY")
	})
}

// report says what the process wrote when its test has failed.
func (p *process) report() {
	if p.t.Failed() {
		p.t.Logf("%s wrote to standard error:\n%s", p.name, tail(p.errs.String()))
		p.t.Logf("%s wrote to standard output:\n%s", p.name, tail(p.out.String()))
	}
}

// tail is the end of a long text.
func tail(text string) string {
	const most = 3000
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// firstLine waits for the first line on standard output.
func (p *process) firstLine(ctx context.Context) string {
	p.t.Helper()
	var line string
	p.awaitOutput(ctx, "its first line", func(lines []string) bool {
		if len(lines) > 0 {
			line = lines[0]
		}
		return len(lines) > 0
	})
	return line
}

// awaitOutput waits until holds is true for the lines on standard output.
func (p *process) awaitOutput(ctx context.Context, what string, holds func(lines []string) bool) {
	p.t.Helper()
	if err := p.out.await(ctx, p.ended, holds); err != nil {
		p.t.Fatalf("%s: wait for %s: %v", p.name, what, err)
	}
}

// kill ends the process without notice, as kill -9 does, and returns when it is gone.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatalf("kill %s: %v", p.name, err)
	}
	<-p.ended
}

// interrupt asks the process to end, as Ctrl-C does, and returns its exit status.
func (p *process) interrupt(ctx context.Context) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.t.Fatalf("interrupt %s: %v", p.name, err)
	}
	return p.wait(ctx)
}

// wait waits until the process has ended and returns its exit status.
func (p *process) wait(ctx context.Context) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.t.Fatalf("wait for the end of %s: %v", p.name, ctx.Err())
	}
	if failed, ok := errors.AsType[*exec.ExitError](p.err); ok {
		return failed.ExitCode()
	}
	if p.err != nil {
		p.t.Fatalf("%s: %v", p.name, p.err)
	}
	return 0
}

// needSignals skips a test where no process can ask another one to end.
func needSignals(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no interrupt signal")
	}
}

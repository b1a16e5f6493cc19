// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package examples_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// build compiles an example and returns the program.
func build(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name+".exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return program
}

func TestTheClientSaysWhichServerAnswered(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client := exec.CommandContext(ctx, build(t, "client"))
	client.Env = append(os.Environ(),
		"CHRONICLE_CONNECTION_STRING="+cluster.SRVConnectionString()+"&skipTlsValidation=true")
	out, err := client.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := string(out); !strings.HasPrefix(got, "node") || !strings.HasSuffix(got, " <nil>\n") {
		t.Errorf("output is %q, want a server, its version and no error", got)
	}
}

func TestTheEmbeddedRegistryServesASession(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	server := exec.CommandContext(ctx, build(t, "embed"))
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed, or has ended already
	})
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	conn, err := evenkeel.Dial(ctx, "chronicle://"+strings.TrimSpace(addr), evenkeel.WithPlaintext())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	if runtime.GOOS == "windows" {
		t.Skip("no signal to end a program in an orderly way")
	}
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("interrupted with a client on it the server ended with %v", err)
	}
	if got := conn.Status(); got.State == evenkeel.StateReady {
		t.Errorf("state is %v after the only server has ended", got.State)
	}
}

// The README shows the programs that are tested here, not others that look like them.
func TestTheREADMEShowsTheExamples(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{
		"client": "package main\n", "embed": "\tregistry :=", "channel": "\tkeep, err :=",
	} {
		source, err := os.ReadFile(filepath.Join(name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, shown, ok := strings.Cut(string(source), from)
		if !ok {
			t.Fatalf("%s/main.go has no %q", name, from)
		}
		shown = from + shown
		if name != "client" { // a part, up to the next empty line
			shown, _, _ = strings.Cut(shown, "\n\n")
			shown = strings.ReplaceAll(strings.TrimSpace(shown), "\n\t", "\n")
		}
		if !strings.Contains(string(readme), strings.TrimSpace(shown)) {
			t.Errorf("README does not show this part of examples/%s/main.go:\n%s", name, shown)
		}
	}
}

// What docs/security.md shows in Go is a part of the example of server.New, which is run.
func TestTheGuideToSecurityShowsTheExample(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../server/example_secure_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(guide), "```go\n")[1:]
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of Go, want 2", len(blocks))
	}
	for _, block := range blocks {
		shown, _, _ := strings.Cut(block, "\n```")
		if !strings.Contains(string(source), "\t"+strings.ReplaceAll(shown, "\n", "\n\t")) {
			t.Errorf("server/example_secure_test.go does not have\n%s", shown)
		}
	}
}

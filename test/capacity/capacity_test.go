// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"flag"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var sessions = flag.Int("sessions", 1000, "how many sessions are measured")

// mostOverBare is how much more a server of ours may take than a bare one.
const mostOverBare = 1.15

func TestSessionsCostLittleMoreThanOnABareServer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory and processor time are read from /proc")
	}
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	program := filepath.Join(t.TempDir(), "capacity")
	// Without the race detector in any case: it would be what is measured.
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	result, err := plan{program: program, sessions: *sessions, rounds: 2, window: 8 * time.Second}.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	result.print(&table)
	t.Logf("\n%s", &table)
	for _, s := range append(result.bare, result.ours...) {
		if got, want := float64(s.answers)/result.plan.window.Seconds(), 0.9*float64(*sessions); got < want {
			t.Errorf("answers: got %.0f a second, want %.0f: the machine is too slow for this, or a server", got, want)
		}
	}
	if got := result.memory(); got > mostOverBare {
		t.Errorf("memory: got %.3f times that of the bare server, want %v at most", got, mostOverBare)
	}
	if got := result.processor(); got > mostOverBare {
		t.Errorf("processor time: got %.3f times that of the bare server, want %v at most", got, mostOverBare)
	}
}

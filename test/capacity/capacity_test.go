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
	enough := int64(0.9 * float64(*sessions) * result.plan.window.Seconds())
	for i := range result.bare {
		// Then the clients were not served as often as they should be, and the machine is what was measured.
		if got := result.bare[i].answers; got < enough {
			t.Skipf("answers to the bare server: got %d, want %d: the machine is too busy", got, enough)
		}
		if got := result.ours[i].answers; got < enough {
			t.Errorf("answers to our server: got %d, want %d, as the bare one had", got, enough)
		}
	}
	if got := result.memory(); got > mostOverBare {
		t.Errorf("memory: got %.3f times that of the bare server, want %v at most", got, mostOverBare)
	}
	if got := result.processor(); got > mostOverBare {
		t.Errorf("processor time: got %.3f times that of the bare server, want %v at most", got, mostOverBare)
	}
}

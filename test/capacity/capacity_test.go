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

var sessions = flag.Int("sessions", 100, "how many sessions are measured; from 1000 on the figures are judged")

const (
	// mostOverBare is how much more a server of ours may take than a bare one.
	mostOverBare = 1.15
	// judged is how many sessions it takes for what they cost to show beside what a server costs without any.
	judged = 1000
)

func TestSessionsCostLittleMoreThanOnABareServer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory and processor time are read from /proc")
	}
	program := filepath.Join(t.TempDir(), "capacity")
	// Without the race detector in any case: it would be what is measured.
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	p := plan{program: program, sessions: *sessions, rounds: 1, window: time.Second}
	if *sessions >= judged {
		p.rounds, p.window = 2, 8*time.Second
	}
	result, err := p.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	result.print(&table)
	t.Logf("\n%s", &table)
	if *sessions < judged {
		return // it works, which is all that so short a measurement can show
	}
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

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// What the demonstration has to show with 3 servers and 30 clients.
const (
	demoWithin      = 30 * time.Second
	demoFewest      = 9
	demoMost        = 11
	demoMostKilled  = 16
	demoRecoveryMax = 1000.0 // ms
)

// demoReport is the object of demo --json.
type demoReport struct {
	Servers int         `json:"servers"`
	Clients int         `json:"clients"`
	Phases  []demoPhase `json:"phases"`
}

type demoPhase struct {
	Name           string         `json:"name"`
	Connections    map[string]int `json:"connections"`
	MaxOverMean    float64        `json:"max_over_mean"`
	RecoveryMedian *float64       `json:"recovery_ms_median"`
	RecoveryMax    *float64       `json:"recovery_ms_max"`
}

// The README's first command, as a program reads it.
func TestDemoShowsAFleetThatSurvivesAKilledServer(t *testing.T) {
	alone(t)
	ctx, cancel := context.WithTimeout(t.Context(), demoWithin)
	defer cancel()
	began := time.Now()
	p, status := run(ctx, t, "demo", "--json")
	took := time.Since(began)
	if status != 0 {
		t.Errorf("exit status is %d, want 0: %s", status, p.errs)
	}
	lines, _ := p.out.snapshot()
	if len(lines) == 0 {
		t.Fatal("demo wrote nothing")
	}
	var report demoReport
	strict(t, lines[len(lines)-1], &report)
	t.Logf("demo took %v: %s", took.Round(10*time.Millisecond), lines[len(lines)-1])
	if report.Servers != 3 || report.Clients != 30 || len(report.Phases) != 3 {
		t.Fatalf("report is of %d servers, %d clients and %d phases, want 3, 30 and 3",
			report.Servers, report.Clients, len(report.Phases))
	}
	start, killed, returned := report.Phases[0], report.Phases[1], report.Phases[2]
	checkPhase(t, start, "start", 3, report.Clients)
	checkPhase(t, killed, "killed", 2, report.Clients)
	checkPhase(t, returned, "returned", 3, sum(returned.Connections))
	for endpoint, n := range start.Connections {
		if n < demoFewest || n > demoMost {
			t.Errorf("start: %s has %d clients, want %d to %d", endpoint, n, demoFewest, demoMost)
		}
	}
	for endpoint, n := range killed.Connections {
		if n > demoMostKilled {
			t.Errorf("killed: %s has %d clients, want at most %d", endpoint, n, demoMostKilled)
		}
		if _, alive := start.Connections[endpoint]; !alive {
			t.Errorf("killed: %s was not there at the start", endpoint)
		}
	}
	checkRecovery(t, start, killed, returned)
}

// checkPhase checks what every phase has: its name, its live servers, all clients, and the ratio that follows.
func checkPhase(t *testing.T, phase demoPhase, name string, servers, clients int) {
	t.Helper()
	if phase.Name != name || len(phase.Connections) != servers || sum(phase.Connections) != clients {
		t.Errorf("phase is %+v, want %q with %d clients on %d servers", phase, name, clients, servers)
		return
	}
	most := 0
	for endpoint, n := range phase.Connections {
		most = max(most, n)
		if !strings.Contains(endpoint, ":") {
			t.Errorf("%s: %q is no endpoint", name, endpoint)
		}
	}
	ratio := float64(most*servers) / float64(clients)
	if difference := phase.MaxOverMean - ratio; difference < -0.001 || difference > 0.001 {
		t.Errorf("%s: max_over_mean is %v, connections make it %v", name, phase.MaxOverMean, ratio)
	}
}

// checkRecovery checks the times, and that the server which had been killed is the one that the newcomers filled.
func checkRecovery(t *testing.T, start, killed, returned demoPhase) {
	t.Helper()
	if killed.RecoveryMax == nil || killed.RecoveryMedian == nil {
		t.Fatalf("killed: no recovery times in %+v", killed)
	}
	if *killed.RecoveryMax <= 0 || *killed.RecoveryMax > demoRecoveryMax || *killed.RecoveryMedian > *killed.RecoveryMax {
		t.Errorf("killed: recovery took a median of %v ms and at most %v ms, want at most %v ms",
			*killed.RecoveryMedian, *killed.RecoveryMax, demoRecoveryMax)
	}
	if start.RecoveryMax != nil || returned.RecoveryMax != nil {
		t.Error("recovery times in a phase without a kill")
	}
	var victims []string
	for endpoint := range start.Connections {
		if _, alive := killed.Connections[endpoint]; !alive {
			victims = append(victims, endpoint)
		}
	}
	if len(victims) != 1 || returned.Connections[victims[0]] < demoFewest {
		t.Errorf("%v was killed, and when it was back the clients were %v", slices.Sorted(slices.Values(victims)), returned.Connections)
	}
}

func sum(counts map[string]int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestDemo runs the whole demonstration. Its fleet is small: chance has to make four clients decide in the same instant
// before a server gets one too many.
func TestDemo(t *testing.T) {
	t.Parallel()
	got := call(t, nil, "", "demo", "--json", "--clients", "12")
	late := raced && got.status == exitFailed && strings.Contains(got.stderr, "had a session again after")
	if got.status != exitDone && !late {
		t.Fatalf("status %d: %s", got.status, got.stderr)
	}
	if strings.Count(got.stdout, "\n") != 1 {
		t.Fatalf("standard output holds more than one line:\n%s", got.stdout)
	}
	decoder := json.NewDecoder(bytes.NewBufferString(got.stdout))
	decoder.DisallowUnknownFields()
	var report demoReport
	if err := decoder.Decode(&report); err != nil {
		t.Fatal(err)
	}
	if report.Servers != 3 || report.Clients != 12 || len(report.Phases) != 3 {
		t.Fatalf("got %d servers, %d clients, %d phases, want 3, 12, 3", report.Servers, report.Clients, len(report.Phases))
	}
	wants := []struct {
		name             phaseName
		alive, sum       int
		recovery         bool
		least, mostEvery int
	}{
		{name: phaseStart, alive: 3, sum: 12, least: 3, mostEvery: 5},
		{name: phaseKilled, alive: 2, sum: 12, recovery: true, least: 5, mostEvery: 7},
		{name: phaseReturned, alive: 3, sum: 18, least: 5, mostEvery: 7},
	}
	for i, want := range wants {
		phase := report.Phases[i]
		sum := 0
		for server, n := range phase.Connections {
			if sum += n; n < want.least || n > want.mostEvery {
				t.Errorf("%s: %s has %d, want %d to %d", phase.Name, server, n, want.least, want.mostEvery)
			}
		}
		if phase.Name != want.name || len(phase.Connections) != want.alive || sum != want.sum {
			t.Errorf("phase %d: got %s with %d clients on %d servers, want %s with %d on %d",
				i, phase.Name, sum, len(phase.Connections), want.name, want.sum, want.alive)
		}
		if (phase.RecoveryMax != nil) != want.recovery || (phase.RecoveryMedian != nil) != want.recovery {
			t.Errorf("%s: recovery times present: %v, want %v", phase.Name, phase.RecoveryMax != nil, want.recovery)
		}
		if phase.MaxOverMean < 1 {
			t.Errorf("%s: max_over_mean %v, want 1 or more", phase.Name, phase.MaxOverMean)
		}
	}
}

// TestDemoIsShownOnceMore only where the machine may be to blame, and in time.
func TestDemoIsShownOnceMore(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name              string
		stall, took, left time.Duration
		want              bool
	}{
		{name: "held up", stall: 80 * time.Millisecond, took: 8 * time.Second, left: 20 * time.Second, want: true},
		{name: "not held up", stall: heldUp, took: 8 * time.Second, left: 20 * time.Second},
		{name: "no time left", stall: time.Second, took: 12 * time.Second, left: 15 * time.Second},
	}
	for _, tt := range tests {
		d := &demo{stall: tt.stall}
		if got := d.repeatable(tt.took, tt.left); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDemoNoticesThatItIsHeldUp(t *testing.T) {
	t.Parallel()
	// The picture that is due 100 ms after the second one comes when the hold is over.
	for hold, want := range map[time.Duration]time.Duration{0: 0, 170 * time.Millisecond: 70 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			d := &demo{fleet: new(fleet), frames: time.NewTicker(frame)}
			defer d.frames.Stop()
			d.view = &demoLines{demo: d}
			looks := 0
			finished, err := d.pump(t.Context(), time.Second, func() bool {
				if looks++; looks == 3 {
					time.Sleep(hold)
				}
				return false
			})
			if finished || err != nil {
				t.Fatalf("got %v, %v, want a span that passes", finished, err)
			}
			if d.stall != want {
				t.Errorf("held up for %v: noticed %v, want %v", hold, d.stall, want)
			}
		})
	}
}

func TestDemoLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		even        float64
		least, most int
	}{
		{name: "thirty on three", even: 10, least: 9, most: 11},
		{name: "thirty on two", even: 15, least: 14, most: 16},
		{name: "uneven", even: 7.5, least: 6, most: 9},
		{name: "many", even: 100, least: 90, most: 110},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if least, most := limits(tt.even); least != tt.least || most != tt.most {
				t.Errorf("got %d to %d, want %d to %d", least, most, tt.least, tt.most)
			}
			for _, n := range []int{tt.least - 1, tt.most + 1} {
				if within(map[string]int{"a": n}, tt.even) {
					t.Errorf("%d passes for even", n)
				}
			}
			if !within(map[string]int{"a": tt.least, "b": tt.most}, tt.even) {
				t.Errorf("%d and %d do not pass for even", tt.least, tt.most)
			}
		})
	}
	if within(nil, 1) {
		t.Error("no servers pass for even")
	}
}

func TestDemoFailsWhenSomethingDidNotHold(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := newConsole(nil, nil, &out, &out)
	d := &demo{console: c, view: nil}
	d.view = &demoLines{demo: d}
	d.expect(true, "one")
	if err := d.judge(); err != nil {
		t.Errorf("all held: got %v, want no error", err)
	}
	d.expect(false, "two: %d", 2)
	if err := d.judge(); err == nil || !strings.Contains(err.Error(), "two: 2") {
		t.Errorf("one did not hold: got %v, want an error that names it", err)
	}
	if got, want := out.String(), "          ok: one\n          FAILED: two: 2\n"; got != want {
		t.Errorf("shown:\n%q\nwant:\n%q", got, want)
	}
}

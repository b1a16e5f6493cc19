// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/discover"
)

// at makes an event of a client, some milliseconds after the beginning.
func at(ms, client int, kind evenkeel.EventKind, host string) fleetEvent {
	return fleetEvent{client: client, Event: evenkeel.Event{
		Time: time.UnixMilli(int64(ms)), Kind: kind, Endpoint: discover.Endpoint{Host: host, Port: 1},
	}}
}

func resolved(hosts ...string) fleetEvent {
	e := fleetEvent{client: 1, Event: evenkeel.Event{Kind: evenkeel.EventResolved}}
	for _, host := range hosts {
		e.Endpoints = append(e.Endpoints, discover.Endpoint{Host: host, Port: 1})
	}
	return e
}

// lossOfOne is three clients on two servers, of which one loses its server twice.
func lossOfOne() *tally {
	var t tally
	for _, e := range []fleetEvent{
		resolved("b", "a", "c"),
		at(1, 1, evenkeel.EventConnected, "a"), at(2, 2, evenkeel.EventConnected, "b"), at(3, 3, evenkeel.EventConnected, "b"),
		at(100, 1, evenkeel.EventLost, "a"), at(150, 1, evenkeel.EventConnected, "b"),
		at(200, 1, evenkeel.EventLost, "b"), at(201, 1, evenkeel.EventBackingOff, ""), at(500, 1, evenkeel.EventConnected, "a"),
		at(900, 3, evenkeel.EventLost, "b"),
	} {
		t.apply(e)
	}
	return &t
}

func TestTallyCounts(t *testing.T) {
	t.Parallel()
	got := lossOfOne()
	if diff := cmp.Diff(map[string]int{"a:1": 1, "b:1": 1, "c:1": 0}, got.connections()); diff != "" {
		t.Errorf("connections, -want +got:\n%s", diff)
	}
	if got.ready() != 2 || got.lost != 3 || got.failed != 1 {
		t.Errorf("ready, lost, failed: got %d, %d, %d, want 2, 3, 1", got.ready(), got.lost, got.failed)
	}
	if diff := cmp.Diff([]time.Duration{50 * time.Millisecond, 300 * time.Millisecond}, got.recoveries); diff != "" {
		t.Errorf("recoveries, -want +got:\n%s", diff)
	}
}

func TestTallyTellsHowLongAClientWasWithoutASession(t *testing.T) {
	t.Parallel()
	var got tally
	if _, recovered := got.apply(at(1, 1, evenkeel.EventConnected, "a")); recovered {
		t.Error("the first session counts as a recovery")
	}
	got.apply(at(10, 1, evenkeel.EventLost, "a"))
	if since, recovered := got.apply(at(35, 1, evenkeel.EventConnected, "b")); !recovered || since != 25*time.Millisecond {
		t.Errorf("recovered %v after %v, want true after 25ms", recovered, since)
	}
	if _, recovered := got.apply(at(40, 1, evenkeel.EventConnected, "b")); recovered {
		t.Error("one loss counts as two recoveries")
	}
}

func TestLanes(t *testing.T) {
	t.Parallel()
	tally := lossOfOne()
	tally.settlers = 2
	tally.apply(at(950, 4, evenkeel.EventConnected, "c"))
	got := tally.lanes(func(s string) string { return s })
	want := []lane{
		{name: "a:1", clients: [groups]int{moved: 1}},
		{name: "b:1", clients: [groups]int{atHome: 1}, seekers: 1},
		{name: "c:1", clients: [groups]int{newcomer: 1}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(lane{})); diff != "" {
		t.Errorf("lanes, -want +got:\n%s", diff)
	}
}

func TestLanesAreSortedAsPeopleCount(t *testing.T) {
	t.Parallel()
	var tally tally
	tally.apply(resolved("node10", "node9", "node1"))
	var got []string
	for _, l := range tally.lanes(func(s string) string { return s }) {
		got = append(got, l.name)
	}
	if diff := cmp.Diff([]string{"node1:1", "node9:1", "node10:1"}, got); diff != "" {
		t.Errorf("lanes, -want +got:\n%s", diff)
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		connections map[string]int
		want        float64
	}{
		{name: "even", connections: map[string]int{"a": 10, "b": 10}, want: 1},
		{name: "all on one of two", connections: map[string]int{"a": 10, "b": 0}, want: 2},
		{name: "rounded", connections: map[string]int{"a": 11, "b": 10, "c": 9}, want: 1.1},
		{name: "nothing", connections: map[string]int{"a": 0}, want: 0},
		{name: "nobody", want: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := spread(tt.connections); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSummarise(t *testing.T) {
	t.Parallel()
	if got := summarise(nil); got != nil {
		t.Errorf("of nothing: got %v, want nil", got)
	}
	var all []time.Duration
	for ms := 200; ms >= 1; ms-- {
		all = append(all, time.Duration(ms)*time.Millisecond)
	}
	want := &durations{Count: 200, Median: 100, P99: 198, Max: 200}
	if diff := cmp.Diff(want, summarise(all)); diff != "" {
		t.Errorf("of 1 to 200 ms, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(&durations{Count: 1, Median: 7, P99: 7, Max: 7}, summarise([]time.Duration{7 * time.Millisecond})); diff != "" {
		t.Errorf("of one, -want +got:\n%s", diff)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/sim"
)

// A short version of what is measured: a delay that any machine keeps to, and clients that all find a server.
func TestBenchMeasuresAFleet(t *testing.T) {
	t.Parallel()
	got := call(t, nil, "", "bench", "fleet", "--clients", "30", "--servers", "3", "--jitter", "300ms", "--delay", "20ms", "--repeats", "2", "--json")
	if got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.stderr)
	}
	var algorithms []sim.Algorithm
	for line := range strings.Lines(got.stdout) {
		var row benchRow
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		algorithms = append(algorithms, row.Algorithm)
		if row.Clients != 30 || row.Servers != 3 || row.Mean != 10 || row.Repeats != 2 || row.Jitter != 300 || row.Delay != 20 {
			t.Errorf("%s: got %+v, want what was asked for", row.Algorithm, row)
		}
		if row.Max < row.Mean || row.Max > 30 || row.SimulatedMax < row.Mean || row.SimulatedMax > 30 {
			t.Errorf("%s: max %v and %v simulated, want between the mean and all", row.Algorithm, row.Max, row.SimulatedMax)
		}
		if row.Age < row.Delay || row.ReadyMedian < row.Delay || row.ReadyP99 < row.ReadyMedian {
			t.Errorf("%s: counts are %v old, half of the clients %v and 99 %% %v, want each longer than the one before, and the first than the delay",
				row.Algorithm, row.Age, row.ReadyMedian, row.ReadyP99)
		}
		if row.FailedProbes+row.FailedReservations > 0 && !row.MachineBound {
			t.Errorf("%s: %d probes and %d reservations failed, want none", row.Algorithm, row.FailedProbes, row.FailedReservations)
		}
		// Three counts and a reservation; ours ask again.
		if least, most := 4.0, 25.0; row.RequestsPerClient < least || row.RequestsPerClient > most {
			t.Errorf("%s: %v requests for each client, want %v to %v", row.Algorithm, row.RequestsPerClient, least, most)
		}
		// Classic asks once, unless a machine that is very busy lets attempts fail.
		if row.Algorithm == sim.Classic && row.RequestsPerClient != 4 && !row.MachineBound {
			t.Errorf("classic: %v requests for each client, want 4", row.RequestsPerClient)
		}
		// Of ours none does worse than chance.
		if row.Algorithm != sim.Classic && row.MaxOverMean > 1.8 {
			t.Errorf("%s: max/mean %v, want less than random picks have", row.Algorithm, row.MaxOverMean)
		}
	}
	if want := measuredAlgorithms(); !slices.Equal(algorithms, want) {
		t.Errorf("got %v, want %v", algorithms, want)
	}
	if n := strings.Count(got.stderr, ": done in "); n != len(algorithms) {
		t.Errorf("standard error tells of %d algorithms, want %d: %s", n, len(algorithms), got.stderr)
	}
}

func TestBenchShowsATable(t *testing.T) {
	t.Parallel()
	got := call(t, nil, "", "bench", "fleet", "--clients", "4", "--servers", "2", "--jitter", "10ms")
	if got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.stderr)
	}
	for _, want := range []string{"4 clients on 2 servers, jitter 10ms, delay 0s: 2 for each server\n", "\nclassic ", "\nevenkeel-stock ", "\nevenkeel ", "simulated"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
}

func TestBenchEndsWhenInterrupted(t *testing.T) {
	t.Parallel()
	var stdout, stderr strings.Builder
	if got := run(cancelled(t), []string{"bench", "fleet", "--clients", "5"}, nil, strings.NewReader(""), &stdout, &stderr); got != exitFailed {
		t.Errorf("status %d, want %d", got, exitFailed)
	}
	if !strings.Contains(stderr.String(), "ended early: interrupted") || stdout.Len() > 0 {
		t.Errorf("got %q and %q", stdout.String(), stderr.String())
	}
}

func TestSimulatorAndMeasurementAgree(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		measured, predicted float64
		want                bool
	}{
		"the same":                {10, 10, true},
		"two clients":             {3, 1, true},
		"more than two":           {3.1, 1, false},
		"three of ten":            {13, 10, true},
		"more":                    {13.1, 10, false},
		"less is as far off":      {6.9, 10, false},
		"two, where that is more": {.5, 2.5, true},
	} {
		if got := agree(tt.measured, tt.predicted); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestWatchTellsTheAgeOfCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const wait = 10 * time.Millisecond
		var o onlooker
		p := o.over(waiting{wait})
		for _, pause := range []time.Duration{0, 5 * time.Millisecond} { // the second round counts
			time.Sleep(pause)
			var round sync.WaitGroup
			for range 3 {
				round.Go(func() { _, _ = p.Count(t.Context(), discover.Endpoint{}) }) // it does not fail
			}
			round.Wait()
		}
		time.Sleep(time.Millisecond)
		for range 2 { // the first one counts
			if _, err := p.Reserve(t.Context(), discover.Endpoint{}, balance.ReserveRequest{}); err != nil {
				t.Error(err)
			}
		}
		if err := p.(balance.Releaser).Release(t.Context(), discover.Endpoint{}, "id"); err != nil {
			t.Error(err)
		}
		if got, want := o.sum(), (sighting{requests: 9, probes: 6, reservations: 2, age: 11 * time.Millisecond}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestWatchCountsWhatFails(t *testing.T) {
	t.Parallel()
	var o onlooker
	p := o.over(failingProber{})
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, ctx := range []context.Context{t.Context(), t.Context(), gone} { // who does not wait is no failure
		if _, err := p.Count(ctx, discover.Endpoint{}); err == nil {
			t.Error("no error of a count that failed")
		}
	}
	if _, err := p.Reserve(t.Context(), discover.Endpoint{}, balance.ReserveRequest{}); err == nil {
		t.Error("no error of a reservation that failed")
	}
	if got, want := o.sum(), (sighting{requests: 4, probes: 3, failedProbes: 2, reservations: 1, failedReservations: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFiguresTellNothingWhereManyRequestsFail(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		seen sighting
		want bool
	}{
		"nothing asked":            {sighting{}, false},
		"none":                     {sighting{probes: 1000, reservations: 100}, false},
		"one of a hundred":         {sighting{probes: 1000, failedProbes: 10, reservations: 100, failedReservations: 1}, false},
		"more probes":              {sighting{probes: 1000, failedProbes: 11, reservations: 100}, true},
		"more reservations":        {sighting{probes: 1000, reservations: 100, failedReservations: 2}, true},
		"none of what there was":   {sighting{probes: 1000, failedProbes: 1000}, true},
		"the only reservation not": {sighting{reservations: 1, failedReservations: 1}, true},
	} {
		if got := tt.seen.failing(); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

// failingProber has no answers.
type failingProber struct{ waiting }

func (failingProber) Count(context.Context, discover.Endpoint) (balance.Count, error) {
	return balance.Count{}, balance.ErrProberClosed
}

func (failingProber) Reserve(context.Context, discover.Endpoint, balance.ReserveRequest) (balance.Reservation, error) {
	return balance.Reservation{}, balance.ErrProberClosed
}

func TestTheSpreadOfCountsLeavesOutLateOnes(t *testing.T) {
	t.Parallel()
	var o onlooker
	begin := time.Now()
	for i := range 100 {
		at := begin.Add(time.Duration(i) * time.Millisecond)
		if i == 99 {
			at = begin.Add(time.Hour)
		}
		o.decided(at)
	}
	if got := o.sum().spread; got < 98*time.Millisecond || got > 100*time.Millisecond {
		t.Errorf("got %v, want 100ms", got)
	}
}

// waiting is a prober whose answers take a while.
type waiting struct{ time.Duration }

func (w waiting) Count(context.Context, discover.Endpoint) (balance.Count, error) {
	time.Sleep(w.Duration)
	return balance.Count{}, nil
}

func (w waiting) Reserve(context.Context, discover.Endpoint, balance.ReserveRequest) (balance.Reservation, error) {
	time.Sleep(w.Duration)
	return balance.Reservation{Made: true}, nil
}

func (w waiting) Release(context.Context, discover.Endpoint, string) error { return nil }

func TestClientsThatDecideAtOnce(t *testing.T) {
	t.Parallel()
	for want, c := range map[float64]crowd{100: {clients: 201, jitter: 2 * time.Second}, 200: {clients: 201, jitter: time.Millisecond}} {
		if got := c.atOnce(time.Second, c.jitter); got != want {
			t.Errorf("%+v: got %v, want %v", c, got, want)
		}
	}
}

// The crowds that are measured by themselves fit into two seconds for an answer, and one of them is as dense as where the
// classic algorithm collapses.
func TestCrowdsAreThoseOfTheMeasure(t *testing.T) {
	t.Parallel()
	densest := 0.0
	for _, c := range crowds() {
		densest = max(densest, c.atOnce(c.delay, c.jitter))
		if c.delay > maxBenchDelay || c.servers != 10 {
			t.Errorf("%+v: want 10 servers and a delay of %v at most", c, maxBenchDelay)
		}
	}
	if densest < 190 {
		t.Errorf("%v clients decide at once at most, want 200", densest)
	}
}

func TestBenchShowsWhereTheMachineIsTheBound(t *testing.T) {
	t.Parallel()
	rows := []benchRow{
		{Algorithm: sim.Classic, Agree: true, Max: 1234.5, MaxOverMean: 12.345, SimulatedMax: 1234.5, RequestsPerClient: 101, ReadyMedian: 61_234, ReadyP99: 61_234},
		{Algorithm: sim.EvenkeelStock, FailedProbes: 8739, FailedReservations: 1, failing: true, MachineBound: true, Age: 61_234, Spread: 61_234, AtOnce: 1000},
	}
	text := onTerminal(t, func(c *console) { (&bench{console: c}).show(crowd{clients: 10, servers: 1}, rows, true) })
	for _, want := range []string{"machine bound", "yes    no", "no     yes", "at once", "p99", "failed", "8740"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
)

// runsFor returns how long the penalty of addr still runs at now, to the second.
func runsFor(p *balance.Penalties, addr string, now time.Time) time.Duration {
	span := time.Duration(0)
	for p.Penalised(addr, now.Add(span)) {
		span += time.Second
	}
	return span
}

func TestPenaltiesDouble(t *testing.T) {
	t.Parallel()
	var penalties balance.Penalties // the zero value is ready
	now := noon
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		penalties.Fail("a:1", now)
		if got := runsFor(&penalties, "a:1", now); got != want {
			t.Errorf("failure %d: penalised for %v, want %v", i+1, got, want)
		}
		now = now.Add(want) // it has just run out
	}
}

func TestPenaltiesDoubleWhileTheyRun(t *testing.T) {
	t.Parallel()
	penalties := balance.NewPenalties()
	penalties.Fail("a:1", noon)
	penalties.Fail("a:1", noon.Add(10*time.Second))
	if got, want := runsFor(penalties, "a:1", noon), 70*time.Second; got != want {
		t.Errorf("penalised for %v, want %v: a minute from the second failure on", got, want)
	}
}

func TestPenaltiesAreClearedByGoodSessionsOnly(t *testing.T) {
	t.Parallel()
	penalties := balance.NewPenalties()
	penalties.Fail("a:1", noon)
	penalties.Fail("b:1", noon)
	penalties.Clear("a:1")
	penalties.Clear("never failed:1")
	if penalties.Penalised("a:1", noon) {
		t.Error("a is still penalised")
	}
	if !penalties.Penalised("b:1", noon) {
		t.Error("clearing a cleared b")
	}
	penalties.Fail("a:1", noon)
	penalties.Fail("b:1", noon)
	for addr, want := range map[string]time.Duration{"a:1": 30 * time.Second, "b:1": time.Minute} {
		if got := runsFor(penalties, addr, noon); got != want {
			t.Errorf("%s is penalised for %v, want %v", addr, got, want)
		}
	}
}

func TestPenaltiesNobodyFailed(t *testing.T) {
	t.Parallel()
	if balance.NewPenalties().Penalised("a:1", noon) {
		t.Error("penalised without a failure")
	}
}

func TestPenaltiesForgetEndpointsThatAreGone(t *testing.T) {
	t.Parallel()
	penalties := balance.NewPenalties()
	penalties.Fail("gone:1", noon)
	later := noon.Add(2 * time.Hour)
	penalties.Fail("other:1", later)
	if got := penalties.EntriesForTest(); got != 1 {
		t.Errorf("%d endpoints remembered, want 1", got)
	}
	penalties.Fail("gone:1", later)
	if got, want := runsFor(penalties, "gone:1", later), 30*time.Second; got != want {
		t.Errorf("penalised for %v after two hours, want %v", got, want)
	}
}

func TestPenaltiesAreBounded(t *testing.T) {
	t.Parallel()
	penalties := balance.NewPenalties()
	const n = balance.MaxPenaltiesForTest + 100
	for i := range n {
		penalties.Fail(fmt.Sprintf("n%d:1", i), noon.Add(time.Duration(i)*time.Millisecond))
	}
	if got := penalties.EntriesForTest(); got != balance.MaxPenaltiesForTest {
		t.Errorf("%d endpoints remembered, want %d", got, balance.MaxPenaltiesForTest)
	}
	now := noon.Add(n * time.Millisecond)
	if penalties.Penalised("n0:1", now) {
		t.Error("the oldest is still penalised")
	}
	if !penalties.Penalised(fmt.Sprintf("n%d:1", n-1), now) {
		t.Error("the newest is not penalised")
	}
}

func TestPenaltiesConcurrently(t *testing.T) {
	t.Parallel()
	penalties := balance.NewPenalties()
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			addr := fmt.Sprintf("n%d:1", i%2)
			for range 200 {
				penalties.Fail(addr, noon)
				penalties.Penalised(addr, noon)
				if i >= 4 {
					penalties.Clear(addr)
				}
			}
		})
	}
	wait.Wait()
	for _, addr := range []string{"n0:1", "n1:1"} {
		penalties.Clear(addr)
	}
	if got := penalties.EntriesForTest(); got != 0 {
		t.Errorf("%d endpoints remembered, want none", got)
	}
}

func TestSilenceIsForgotten(t *testing.T) {
	t.Parallel()
	answer := []balance.Observation{{Endpoint: node("a"), Count: balance.Count{Connections: 3}}}
	tests := []struct {
		name  string
		heard []balance.Observation
		after time.Duration
		want  string
	}{
		{name: "not at once", want: "ab"},
		{name: "not for five minutes", after: 5 * time.Minute, want: "ab"},
		{name: "after five minutes", after: 5*time.Minute + 1, want: "a"},
		{name: "with the next answer", heard: answer, want: "a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			now := noon.Add(test.after)
			penalties := balance.NewPenalties()
			penalties.Observe(silent("a"), noon)
			penalties.Observe(test.heard, noon)
			penalties.Fail(node("b").Addr(), now)
			if got := names(balance.NewAttempt(tiers("ab"), penalties, "").Candidates(now)); got != test.want {
				t.Errorf("candidates %q, want %q", got, test.want)
			}
		})
	}
}

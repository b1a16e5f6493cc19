// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
)

// TestPicksDuringShrinkAndGrowth has 30 goroutines call while the set goes from 8 to 2 to 8 a hundred times.
func TestPicksDuringShrinkAndGrowth(t *testing.T) {
	for _, name := range policies() {
		t.Run(name, func(t *testing.T) {
			w := newLoopback(t)
			var nodes []*node
			var addrs []string
			for range 8 {
				n := w.start("")
				nodes, addrs = append(nodes, n), append(addrs, n.addr)
			}
			c := w.client(name, `{"drainTimeout":"5s"}`)
			c.update(addrs...)
			c.tally(100)
			var calls atomic.Int64
			var callers sync.WaitGroup
			stop := make(chan struct{})
			for range 30 {
				callers.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if _, err := c.who(); err != nil {
							t.Errorf("a call failed: %v", err)
							return
						}
						calls.Add(1)
					}
				})
			}
			for range 100 {
				for _, set := range [][]string{addrs[:2], addrs} {
					before := calls.Load()
					c.update(set...)
					waitFor(t, "calls go on", func() bool { return calls.Load() >= before+30 })
				}
			}
			close(stop)
			callers.Wait()
			if name == policy.RoundRobin {
				wantEven(t, c, nodes)
			}
		})
	}
}

// wantEven checks 10 000 calls of round robin to 5 %.
func wantEven(t *testing.T, c *client, nodes []*node) {
	t.Helper()
	waitFor(t, "all are in rotation", func() bool { return len(c.tally(16*len(nodes))) == len(nodes) })
	const calls = 10_000
	counts := c.tally(calls)
	mean := calls / len(nodes)
	for _, n := range nodes {
		if got := counts[n.addr]; got < mean*95/100 || got > mean*105/100 {
			t.Errorf("%s got %d calls, want %d within 5 %%", n.addr, got, mean)
		}
	}
}

// waitFor waits for something that becomes true by itself. It yields with a pause, as there is no event to wait for.
func waitFor(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			tb.Fatalf("not within 30 s: %s", what)
		}
	}
}

// TestFullServerIsPassedOverByLeastRequest has servers of ten streams each: calls that wait for a stream count too.
func TestFullServerIsPassedOverByLeastRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limit := grpc.MaxConcurrentStreams(10)
		w.start("a", limit)
		w.start("b", limit)
		c := w.client(policy.LeastRequest, "{}")
		c.update("a")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 10 {
			c.hold(ctx) // a is full
		}
		c.update("a", "b")
		settle()
		begin := time.Now()
		for range 9 {
			if _, addr := c.hold(ctx); addr != "b" {
				t.Errorf("a stream went to %s, which was full", addr)
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("streams waited for %v though a server is free", took)
		}
	})
}

// TestSkewAfterScaleUp is 4.2 number 25 of the survey: at most 1.1 between the busiest server and the mean.
func TestSkewAfterScaleUp(t *testing.T) {
	t.Parallel()
	w := newLoopback(t)
	var addrs []string
	var nodes []*node
	for range 6 {
		n := w.start("")
		nodes, addrs = append(nodes, n), append(addrs, n.addr)
	}
	c := w.client(policy.RoundRobin, "{}")
	c.update(addrs[:2]...)
	c.tally(200)
	c.update(addrs...)
	waitFor(t, "all are in rotation", func() bool { return len(c.tally(60)) == len(nodes) })
	for addr, n := range c.tally(3000) {
		if n > 550 {
			t.Errorf("%s got %d of 3000 calls, want at most 550", addr, n)
		}
	}
}

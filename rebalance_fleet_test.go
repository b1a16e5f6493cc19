// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend

package evenkeel_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/server"
)

const (
	// lookInterval is that of the fleets here, 10 times shorter than the default. Two minutes are 4 of the default, so the
	// fleets have 4 of theirs to be even again.
	lookInterval = 3 * time.Second * slowness
	fleetSize    = 300 / slowness
	fleetWithin  = 4 * lookInterval
)

// rebalancing is a fleet on real sockets, whose clients make calls all the time.
type rebalancing struct {
	cluster *evenkeeltest.Cluster
	conns   []*evenkeel.Conn
	moves   []atomic.Int64 // of each client, by itself
	calls   atomic.Int64

	stopCalls func() // nil before there are any
}

func startRebalancing(t *testing.T, servers int) *rebalancing {
	t.Helper()
	f := &rebalancing{
		cluster: evenkeeltest.Start(t, evenkeeltest.Config{
			Servers: servers, Registry: server.RegistryConfig{DrainPeriod: 500 * time.Millisecond},
		}),
		conns: make([]*evenkeel.Conn, fleetSize), moves: make([]atomic.Int64, fleetSize),
	}
	prober := shared(t, f.cluster.TLS())
	const doors = 16 // clients that connect at a time
	next := make(chan int)
	var dialling sync.WaitGroup
	for range doors {
		dialling.Go(func() {
			for i := range next {
				conn, err := evenkeel.Dial(t.Context(), f.cluster.SRVConnectionString(), evenkeel.WithTLS(f.cluster.TLS()), prober,
					evenkeel.WithRebalance(balance.RebalanceConfig{Interval: lookInterval}), evenkeel.WithEvents(f.record(i)))
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					continue
				}
				f.conns[i] = conn
			}
		})
	}
	for i := range f.conns {
		next <- i
	}
	close(next)
	dialling.Wait()
	if t.Failed() {
		f.end()
		t.FailNow()
	}
	return f
}

// end stops the calls, and then the clients.
func (f *rebalancing) end() {
	if f.stopCalls != nil {
		f.stopCalls()
	}
	var closing sync.WaitGroup
	for _, conn := range f.conns {
		if conn != nil {
			closing.Go(func() { _ = conn.Close() })
		}
	}
	closing.Wait()
}

// record counts the moves that a client makes by itself.
func (f *rebalancing) record(i int) func(evenkeel.Event) {
	return func(e evenkeel.Event) {
		if e.Kind == evenkeel.EventLeaving && errors.Is(e.Err, evenkeel.ErrRebalanced) {
			f.moves[i].Add(1)
		}
	}
}

// callAllTheTime has all clients make calls in turn until the end.
func (f *rebalancing) callAllTheTime(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var calling sync.WaitGroup
	const callers = 4
	for caller := range callers {
		calling.Go(func() {
			pace := time.NewTicker(3 * time.Millisecond)
			defer pace.Stop()
			for i := caller; ctx.Err() == nil; i += callers {
				<-pace.C
				f.calls.Add(1)
				if _, err := version(context.Background(), f.conns[i%len(f.conns)]); err != nil {
					t.Errorf("a call of client %d failed: %v", i%len(f.conns), err)
				}
			}
		})
	}
	f.stopCalls = func() {
		stop()
		calling.Wait()
	}
}

// counts returns what the servers count, and whether that is even and complete.
func (f *rebalancing) counts() (counts []int, even bool) {
	sum, most := 0, 0
	for _, s := range f.cluster.Servers {
		count := s.Count()
		counts = append(counts, count)
		sum += count
		most = max(most, count)
	}
	mean := float64(sum) / float64(len(counts))
	return counts, sum == len(f.conns) && most <= int(math.Ceil(1.05*mean-1e-9))
}

// awaitEven waits until the fleet is even, and says whether it was in time.
func (f *rebalancing) awaitEven(t *testing.T, what string) bool {
	t.Helper()
	began := time.Now()
	before, _ := f.counts()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		counts, even := f.counts()
		if even {
			t.Logf("%s: %v became %v in %v of %v, %s", what, before, counts, time.Since(began).Round(time.Millisecond), fleetWithin, f.moved())
			return true
		}
		if time.Since(began) > fleetWithin {
			t.Logf("%s: %v became %v in %v, which is not even; %s", what, before, counts, fleetWithin, f.moved())
			return false
		}
		<-look.C
	}
}

// moved tells how many clients have moved by themselves.
func (f *rebalancing) moved() moved {
	var m moved
	for i := range f.moves {
		switch n := f.moves[i].Load(); {
		case n > 1:
			m.again++
			fallthrough
		case n == 1:
			m.once++
		}
	}
	m.all, m.calls = len(f.moves), f.calls.Load()
	return m
}

type moved struct {
	once, again, all int
	calls            int64
}

func (m moved) String() string {
	return fmt.Sprintf("%.1f %% of %d clients moved, %d twice, beside %d calls", 100*float64(m.once)/float64(m.all), m.all, m.again, m.calls)
}

// check holds the moves against what the imbalance needed.
func (f *rebalancing) check(t *testing.T, most float64) {
	t.Helper()
	if m := f.moved(); m.once == 0 || m.again > 0 || float64(m.once) > most*float64(m.all) {
		t.Errorf("%s, want up to %.0f %%, none twice", m, 100*most)
	}
}

func TestAFleetRebalances(t *testing.T) {
	t.Run("when servers are added", func(t *testing.T) {
		inTime(t, func() bool {
			f := startRebalancing(t, 3)
			defer f.end()
			f.callAllTheTime(t)
			if _, err := f.cluster.AddServers(2); err != nil {
				t.Fatal(err)
			}
			defer f.check(t, 0.45)
			return f.awaitEven(t, "3 to 5 servers")
		})
	})
	t.Run("after a rolling restart", func(t *testing.T) {
		inTime(t, func() bool {
			f := startRebalancing(t, 5)
			defer f.end()
			f.callAllTheTime(t)
			for _, s := range f.cluster.Servers {
				if err := s.Drain(within(t)); err != nil {
					t.Fatal(err)
				}
				if err := s.Restart(); err != nil {
					t.Fatal(err)
				}
			}
			defer f.check(t, 0.45)
			return f.awaitEven(t, "rolling restart")
		})
	})
	t.Run("when a server is back", func(t *testing.T) {
		inTime(t, func() bool {
			f := startRebalancing(t, 5)
			defer f.end()
			s := f.cluster.Servers[0]
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := f.cluster.WaitCount(within(t), fleetSize); err != nil {
				t.Fatal(err)
			}
			f.callAllTheTime(t) // what the kill has cut off is another matter
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			defer f.check(t, 0.3)
			return f.awaitEven(t, "a server is back")
		})
	})
}

// inTime runs a fleet that is to be even in time, and another one where it was not: other programs may have had the
// processors just then. Whatever is slow by itself is so again.
func inTime(t *testing.T, run func() bool) {
	t.Helper()
	for range 2 {
		if run() {
			return
		}
	}
	t.Errorf("not even in %v, twice", fleetWithin)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// A server that claims to be empty and refuses every session attracts everyone, once.
func testAServerThatLiesAndRefusesIsTriedOnceByEachClient(t *testing.T) {
	live(t)
	const clients = 20
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 3})
	hole := c.Servers[0]
	hole.SetFault(evenkeeltest.Fault{Count: evenkeeltest.CountOf(0), RefuseConnect: codes.Unavailable})
	prober := sharedWithoutJitter(t, c)
	conns, recorders := make([]*evenkeel.Conn, clients), make([]*recorder, clients)
	for i := range clients {
		conns[i], recorders[i] = meet(t, c, c.ConnectionString(), prober)
	}
	pass(steadily)
	dying := c.Servers[1]
	var movers []int
	for i, conn := range conns {
		switch host(t, c, conn.Server()) {
		case hole:
			t.Errorf("client %d is ready on the server that refuses", i)
		case dying:
			movers = append(movers, i)
		}
	}
	if len(movers) < clients/3 {
		t.Errorf("%d of %d clients are on the second server, want about half", len(movers), clients)
	}
	if err := dying.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, i := range movers {
		again := recorders[i].soon(t, evenkeel.EventConnected, 2)
		if host(t, c, again.Endpoint) != c.Servers[2] {
			t.Errorf("client %d is ready on %s, want the third server", i, again.Endpoint.Addr())
		}
		if d := again.Time.Sub(recorders[i].soon(t, evenkeel.EventLost, 1).Time); d > slack {
			t.Errorf("client %d was ready again after %v", i, d)
		}
	}
	all := 0
	for i, r := range recorders {
		tried := 0
		for _, e := range r.all(evenkeel.EventSelected) {
			if host(t, c, e.Endpoint) == hole {
				tried++
			}
		}
		// Whoever is told by the reservation that the server has more than it counts does not try it at all.
		if all += tried; tried > 1 {
			t.Errorf("client %d tried the server that refuses %d times, want once, before it was penalised", i, tried)
		}
	}
	if all == 0 {
		t.Error("nobody tried the server that refuses")
	}
}

// sharedWithoutJitter is shared for many clients that come one after the other.
func sharedWithoutJitter(t *testing.T, c *evenkeeltest.Cluster) evenkeel.Option {
	t.Helper()
	prober, err := balance.NewProber(balance.ProberConfig{TLS: c.TLS()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := prober.Close(); err != nil {
			t.Errorf("close the prober: %v", err)
		}
	})
	return evenkeel.WithLeastConnections(balance.LeastConnectionsConfig{Prober: prober, MaxJitter: balance.NoJitter})
}

// liar is a prober that always sees the first server empty and the others busy.
type liar struct{ empty string }

func (l liar) Count(_ context.Context, e discover.Endpoint) (balance.Count, error) {
	if e.Addr() == l.empty {
		return balance.Count{}, nil
	}
	return balance.Count{Connections: 10}, nil
}

func (liar) Reserve(context.Context, discover.Endpoint, balance.ReserveRequest) (balance.Reservation, error) {
	return balance.Reservation{Made: true}, nil
}

// Clients that are moved all the time, as by rolling restarts, keep away from such a server: after the first minute at
// most one attempt in 20 goes there. The penalty lasts 5 min at most, so a client that moves rarely, say once a minute,
// tries it at about every fifth move: once in 5 min all the same.
func TestAServerThatLiesAndRefusesGetsFewAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const clients = 10
		const stay = 5 // seconds, before a good server asks its client to move
		c := newMemoryCluster(t, "a", "b", "c")
		refuse := func(int, string) (string, error) { return "", status.Error(codes.Unavailable, "no sessions here") }
		c.servers["a:35000"].pulse.Store(&refuse)
		moving := func(n int, id string) (string, error) {
			if n >= stay {
				return "", errDrain
			}
			return id, nil
		}
		c.servers["b:35000"].pulse.Store(&moving)
		c.servers["c:35000"].pulse.Store(&moving)
		prober := evenkeel.WithLeastConnections(balance.LeastConnectionsConfig{Prober: liar{"a:35000"}})
		var hole, all atomic.Int64
		began := time.Now()
		conns := make([]*evenkeel.Conn, clients)
		for i := range conns {
			conns[i], _ = c.connect(t, "chronicle://a,b,c", prober, evenkeel.WithEvents(func(e evenkeel.Event) {
				if e.Kind != evenkeel.EventSelected || e.Time.Sub(began) < time.Minute {
					return
				}
				all.Add(1)
				if e.Endpoint.Host == "a" {
					hole.Add(1)
				}
			}))
		}
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		for i, conn := range conns {
			if got := conn.Status(); got.State != evenkeel.StateReady || got.Endpoint.Host == "a" {
				t.Errorf("client %d is %v on %s, want ready elsewhere", i, got.State, got.Endpoint.Addr())
			}
		}
		if all.Load() < clients*40 {
			t.Errorf("there were %d attempts, want enough to judge by", all.Load())
		}
		if share := float64(hole.Load()) / float64(all.Load()); share > 0.05 {
			t.Errorf("%d of %d attempts went to the server that refuses, %.1f%%, want 5%% at most", hole.Load(), all.Load(), 100*share)
		}
		t.Logf("%d of %d attempts went to the server that refuses", hole.Load(), all.Load())
	})
}

// A callback that takes its time loses events, the oldest first, and is told how many. The session does not wait for it.
func TestASlowCallbackHoldsNothingUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		gate := make(chan struct{})
		var seen, dropped atomic.Int64
		conn, _ := c.connect(t, "chronicle://a,b?loadBalancer=round-robin", evenkeel.WithEvents(func(e evenkeel.Event) {
			<-gate
			seen.Add(1)
			dropped.Add(int64(e.Dropped))
		}))
		if err := conn.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		const moves = 100 // each is resolving, resolved, selected, leaving and connected
		for range moves {
			if err := conn.Reselect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := conn.Status().Generation; got != moves+1 {
			t.Errorf("generation is %d, want %d: the callback held moves up", got, moves+1)
		}
		close(gate)
		synctest.Wait()
		const events = 4 + 5*moves
		if seen.Load() != 257 || dropped.Load() != events-257 {
			t.Errorf("the callback saw %d events and was told of %d lost, want 257 (256 waited beside the one in hand) and %d",
				seen.Load(), dropped.Load(), events-257)
		}
	})
}

// Being asked to leave is no fault, however early. Servers that ask over and over are left alone for a while.
func TestServersThatSendAClientRoundInCirclesAreBackedOffFrom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		// A session is up when its first answer was acknowledged. 100 ms later the server asks to leave.
		circles := func(n int, id string) (string, error) {
			if n == 0 {
				return id, nil
			}
			return "", errDrain
		}
		for _, s := range c.servers {
			s.interval = 100 * time.Millisecond
			s.pulse.Store(&circles)
		}
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin")
		events.await(t, evenkeel.EventBackingOff, 1)
		if got := len(events.all(evenkeel.EventLeaving)); got != 2 {
			t.Errorf("the client moved %d times before it backed off, want 2", got)
		}
		for _, s := range c.servers {
			s.pulse.Store(nil)
		}
		time.Sleep(time.Hour)
		if got := conn.State(); got != evenkeel.StateReady {
			t.Errorf("state is %v, want ready", got)
		}
	})
}

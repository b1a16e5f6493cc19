// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// A proxy or a server that ends each connection at a certain age makes the client move all the time. Calls do not notice.
func testGoAwayEveryHalfSecondFailsNoUnaryCall(t *testing.T) {
	var cases together
	for name, servers := range map[string]int{"one server": 1, "three servers": 3} {
		cases.run(t, name, func(t *testing.T) {
			c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: servers})
			for _, s := range c.Servers {
				s.SetFault(evenkeeltest.Fault{GoAwayAfter: slowness * 500 * time.Millisecond})
			}
			conn, events := meet(t, c, c.ConnectionString())
			var slowest time.Duration
			calls := 0
			for began := time.Now(); time.Since(began) < slowness*4*time.Second; calls++ {
				before := time.Now()
				if _, err := version(within(t), conn); err != nil {
					t.Fatalf("call %d failed: %v; events: %s", calls, err, events)
				}
				slowest = max(slowest, time.Since(before))
				pass(time.Millisecond)
			}
			if got := len(events.all(evenkeel.EventLeaving)); got < 4 {
				t.Errorf("the session moved %d times, want about 8", got)
			}
			for _, kind := range []evenkeel.EventKind{evenkeel.EventLost, evenkeel.EventBackingOff, evenkeel.EventCandidateFailed} {
				if got := events.all(kind); len(got) > 0 {
					t.Errorf("a move brought %v", got)
				}
			}
			if slowest > slack {
				t.Errorf("a call waited %v", slowest)
			}
		})
	}
	cases.wait()
}

// A stock server allows 100 streams on a connection. Further streams go to further connections, and the keep-alives, on
// the first, go on.
func testMoreStreamsThanAServerAllowsOnAConnection(t *testing.T) {
	live(t)
	var calls program
	c := evenkeeltest.Start(t, evenkeeltest.Config{
		Servers: 1, Services: calls.register, GRPCOptions: []grpc.ServerOption{grpc.MaxConcurrentStreams(100)},
	})
	conn, events := meet(t, c, c.ConnectionString())
	const streams = 150
	ctx, end := context.WithCancel(within(t))
	defer end()
	ended := make(chan error, streams)
	for range streams {
		s := watch(ctx, t, conn)
		go func() { ended <- s.RecvMsg(&emptypb.Empty{}) }()
	}
	if got := c.Servers[0].OpenConnections(); got != 3 {
		t.Errorf("the server has %d connections, want 3 of 64 calls each", got)
	}
	pass(6 * time.Second) // longer than the watchdog would wait for keep-alives that starve
	if _, err := version(within(t), conn); err != nil {
		t.Errorf("a call beside %d streams: %v", streams, err)
	}
	if got := conn.Status(); got.State != evenkeel.StateReady || got.Generation != 1 {
		t.Errorf("status is %v in generation %d, want ready in the first; events: %s", got.State, got.Generation, events)
	}
	select {
	case err := <-ended:
		t.Errorf("a stream ended: %v", err)
	default:
	}
	end()
	for range streams {
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("a cancelled stream ended with %v", err)
		}
	}
}

func testADrainMovesTheClientBeforeItLetsGo(t *testing.T) {
	live(t)
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	conn, events := meet(t, c, c.ConnectionString())
	victim := host(t, c, conn.Server())
	drained := make(chan error, 1)
	go func() { drained <- victim.Drain(within(t)) }()
	for {
		select {
		case err := <-drained:
			if err != nil {
				t.Errorf("drain: %v", err)
			}
			if again := events.soon(t, evenkeel.EventConnected, 2); host(t, c, again.Endpoint) == victim {
				t.Error("ready on the server that drained")
			}
			if got := events.all(evenkeel.EventLost); len(got) > 0 {
				t.Errorf("the session was lost: %v", got)
			}
			return
		default:
		}
		if _, err := version(within(t), conn); err != nil {
			t.Fatalf("a call during the drain: %v; events: %s", err, events)
		}
		pass(time.Millisecond)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/discover"
)

// drain makes a server end its Connect streams as one that drains does.
func (s *memoryServer) drain() {
	end := func(int, string) (string, error) { return "", errDrain }
	s.pulse.Store(&end)
}

// shed makes a server end its Connect streams as one does that sends clients away.
func (s *memoryServer) shed() {
	end := func(int, string) (string, error) { return "", errShed }
	s.pulse.Store(&end)
}

// openStream begins a stream of the program's own, which the hook of GetVersionInfo's server does not touch: it sends a
// keep-alive each second until its context ends.
func openStream(
	ctx context.Context, t *testing.T, conn grpc.ClientConnInterface,
) grpc.ServerStreamingClient[clientspb.ConnectionKeepAlive] {
	t.Helper()
	s, err := clientspb.NewConnectionServiceClient(conn).
		Connect(ctx, &clientspb.ConnectRequest{ConnectionId: ownStream})
	if err != nil {
		t.Fatalf("open a stream: %v", err)
	}
	if _, err := s.Recv(); err != nil {
		t.Fatalf("first message of a stream: %v", err)
	}
	return s
}

func TestAClientThatIsToldToLeaveMovesBeforeItLetsGo(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]struct {
		do    func(*memoryServer)
		cause error
	}{
		"draining": {(*memoryServer).drain, evenkeel.ErrDraining},
		"shed":     {(*memoryServer).shed, evenkeel.ErrShed},
		"GOAWAY":   {func(s *memoryServer) { go s.server.GracefulStop() }, evenkeel.ErrGoAway},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a", "b")
				conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin")
				events.await(t, evenkeel.EventConnected, 1)
				time.Sleep(10 * time.Second)
				first := conn.Server().Addr()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stream := openStream(ctx, t, conn)

				// Unary calls all the time, none of which may fail or wait.
				var calls int
				var slowest time.Duration
				done := make(chan struct{})
				go func() {
					defer close(done)
					for range 1000 {
						began := time.Now()
						if _, err := version(t.Context(), conn); err != nil {
							t.Errorf("call %d failed: %v", calls, err)
						}
						slowest = max(slowest, time.Since(began))
						calls++
						time.Sleep(2 * time.Millisecond)
					}
				}()
				tell.do(c.servers[first])
				left := events.await(t, evenkeel.EventLeaving, 1)
				if !errors.Is(left.Err, tell.cause) {
					t.Errorf("cause is %v, want %v", left.Err, tell.cause)
				}
				again := events.await(t, evenkeel.EventConnected, 2)
				if again.Endpoint.Addr() == first || again.Time.Sub(left.Time) > 100*time.Millisecond {
					t.Errorf("connected to %s after %v, want the other server, without jitter",
						again.Endpoint.Addr(), again.Time.Sub(left.Time))
				}
				<-done
				if slowest > 100*time.Millisecond {
					t.Errorf("a call waited %v because of the move, want at most 100ms", slowest)
				}
				if got := events.kinds(); slices.Contains(got, evenkeel.EventLost) {
					t.Errorf("a session was lost: %v", got)
				}

				// The stream goes on on the old connection, until it is cut off after 30 s.
				for time.Since(left.Time) < 25*time.Second {
					if _, err := stream.Recv(); err != nil {
						t.Fatalf("the stream ended %v after the move began: %v", time.Since(left.Time), err)
					}
				}
				for {
					if _, err := stream.Recv(); err != nil {
						if status.Code(err) != codes.Unavailable || !errors.Is(err, tell.cause) {
							t.Errorf("the stream was cut off with %v, want Unavailable with the cause", err)
						}
						break
					}
				}
				if d := time.Since(left.Time); d < 29*time.Second || d > 31*time.Second {
					t.Errorf("the stream was cut off after %v, want 30s", d)
				}
			})
		})
	}
}

func TestAServerThatDrainsIsLeftAloneOnlyAsLongAsThereAreOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		conn, events := c.connect(t, "chronicle://a")
		events.await(t, evenkeel.EventConnected, 1)
		time.Sleep(40 * time.Second)
		c.servers["a:35000"].drain()
		events.await(t, evenkeel.EventBackingOff, 1)
		synctest.Wait()
		if got := conn.State(); got != evenkeel.StateTransientFailure {
			t.Errorf("state is %v, want transient failure after the one attempt", got)
		}
		if lost := events.await(t, evenkeel.EventLost, 1); !errors.Is(lost.Err, evenkeel.ErrDraining) || lost.Generation != 1 {
			t.Errorf("lost session %d: %v, want the first one, because the server drains", lost.Generation, lost.Err)
		}
		c.servers["a:35000"].pulse.Store(nil)
		events.await(t, evenkeel.EventConnected, 2)
	})
}

func TestReselectMovesToTheServerThatIsSelectedNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin")
		events.await(t, evenkeel.EventConnected, 1)
		first := conn.Server().Addr()
		stream := openStream(t.Context(), t, conn)
		if err := conn.Reselect(t.Context()); err != nil {
			t.Fatalf("Reselect: %v", err)
		}
		if got := conn.Server().Addr(); got == first {
			t.Errorf("still on %s, where round robin would not stay", got)
		}
		if left := events.await(t, evenkeel.EventLeaving, 1); !errors.Is(left.Err, evenkeel.ErrReselected) {
			t.Errorf("cause is %v, want %v", left.Err, evenkeel.ErrReselected)
		}
		if _, err := stream.Recv(); err != nil {
			t.Errorf("a running stream was cut off: %v", err)
		}
	})
}

func TestReselectStaysWhenNothingIsBetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		conn, events := c.connect(t, "chronicle://a")
		events.await(t, evenkeel.EventConnected, 1)
		if err := conn.Reselect(t.Context()); err != nil {
			t.Errorf("Reselect: %v", err)
		}
		if got := c.servers["a:35000"].connects.Load(); got != 1 {
			t.Errorf("the server saw %d sessions, want the one", got)
		}
	})
}

// stepping is a prober that first sees both servers of a cluster empty, and then the own one with one client more.
type stepping struct{ own atomic.Pointer[string] }

func (s *stepping) Count(_ context.Context, e discover.Endpoint) (balance.Count, error) {
	if own := s.own.Load(); own != nil && e.Addr() == *own {
		return balance.Count{Connections: 3}, nil
	}
	return balance.Count{Connections: 2}, nil
}

func (*stepping) Reserve(context.Context, discover.Endpoint, balance.ReserveRequest) (balance.Reservation, error) {
	return balance.Reservation{Made: true}, nil
}

// Moving would only swap the counts of the two servers. The event of the selection names the server that it led to.
func TestReselectStaysWhereMovingWouldNotHelp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		prober := &stepping{}
		conn, events := c.connect(t, "chronicle://a,b",
			evenkeel.WithLeastConnections(balance.LeastConnectionsConfig{Prober: prober}))
		events.await(t, evenkeel.EventConnected, 1)
		own := conn.Server().Addr()
		prober.own.Store(&own)
		if err := conn.Reselect(t.Context()); err != nil {
			t.Errorf("Reselect: %v", err)
		}
		selected := events.await(t, evenkeel.EventSelected, 2)
		if selected.Endpoint.Addr() != own || len(selected.Observations) != 2 {
			t.Errorf("selected %s with %d counts, want the server that the session is on, %s, and both counts",
				selected.Endpoint.Addr(), len(selected.Observations), own)
		}
		if got := conn.Server().Addr(); got != own {
			t.Errorf("moved to %s", got)
		}
	})
}

func TestReselectKeepsTheSessionWhenNobodyElseAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin")
		events.await(t, evenkeel.EventConnected, 1)
		first := conn.Server()
		for name := range c.servers {
			if name != first.Addr() {
				c.refuse.Store(strings.TrimSuffix(name, ":35000"), true)
			}
		}
		// The other one fails, and the next selection leads back to the session's own.
		if err := conn.Reselect(t.Context()); err != nil {
			t.Errorf("Reselect: %v", err)
		}
		if got := conn.Status(); got.State != evenkeel.StateReady || got.Generation != 1 {
			t.Errorf("status is %+v, want the first session", got)
		}
	})
}

func TestReselectEndsABackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		c.refuse.Store("a", true)
		conn, events := c.connect(t, "chronicle://a")
		for n := range 6 {
			events.await(t, evenkeel.EventBackingOff, n+1)
		}
		if err := conn.Reselect(t.Context()); !errors.Is(err, errRefused) {
			t.Errorf("Reselect returned %v, want the cause of the attempt", err)
		}
		c.refuse.Delete("a")
		events.await(t, evenkeel.EventBackingOff, 7)
		began := time.Now()
		if err := conn.Reselect(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("Reselect returned %v after %v, want success at once", err, time.Since(began))
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := conn.Reselect(t.Context()); !errors.Is(err, evenkeel.ErrClosed) {
			t.Errorf("Reselect on a closed Conn returned %v, want ErrClosed", err)
		}
	})
}

// An hour on one server is an hour, also when the program ends it.
func TestASessionThatIsLeftOnRequestCountsAsOneThatWasUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		c.refuse.Store("a", true)
		c.refuse.Store("b", true)
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin")
		events.await(t, evenkeel.EventBackingOff, 6)
		c.refuse.Clear()
		events.await(t, evenkeel.EventConnected, 1)
		time.Sleep(time.Hour)
		if err := conn.Reselect(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := events.await(t, evenkeel.EventConnected, 2).Endpoint
		c.refuse.Store("a", true)
		c.refuse.Store("b", true)
		c.servers[second.Addr()].cutOff()
		if wait := events.await(t, evenkeel.EventBackingOff, 7).Wait; wait > time.Second {
			t.Errorf("the first wait after an hour is %v, want 1s at most", wait)
		}
	})
}

// Two short sessions with a long one between them are not two in a row, whatever ended the long one.
func TestALongSessionThatADrainEndedComesBetweenShortOnes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin")
		for session, up := range []time.Duration{time.Second, time.Hour, time.Second} {
			on := events.await(t, evenkeel.EventConnected, session+1).Endpoint.Addr()
			time.Sleep(up)
			if up == time.Hour {
				c.servers[on].drain()
			} else {
				c.servers[on].cutOff()
			}
		}
		events.await(t, evenkeel.EventConnected, 4)
		if got := events.all(evenkeel.EventBackingOff); len(got) > 0 {
			t.Errorf("backed off: %v", got)
		}
		if got := conn.State(); got != evenkeel.StateReady {
			t.Errorf("state is %v", got)
		}
	})
}

func TestOnReadyRunsInEachSessionBeforeCallsGoToIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		type run struct {
			ctx    context.Context
			server string
			state  evenkeel.State
		}
		runs := make(chan run, 10)
		var conn *evenkeel.Conn
		ready := make(chan struct{})
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin", evenkeel.WithOnReady(
			func(ctx context.Context, bound grpc.ClientConnInterface) error {
				<-ready
				server, err := version(ctx, bound)
				runs <- run{ctx, server, conn.State()}
				return err
			}))
		close(ready)
		events.await(t, evenkeel.EventConnected, 1)
		time.Sleep(10 * time.Second)
		first := <-runs
		if first.state != evenkeel.StateConnecting || first.ctx.Err() != nil {
			t.Errorf("first run: state %v, context %v, want connecting and alive", first.state, first.ctx.Err())
		}
		c.servers[first.server+":35000"].cutOff()
		events.await(t, evenkeel.EventConnected, 2)
		if second := <-runs; second.server == first.server {
			t.Errorf("second run is on %s too", second.server)
		}
		if !errors.Is(context.Cause(first.ctx), evenkeel.ErrTransportLost) {
			t.Errorf("the context of the first run ended with %v, want the loss", context.Cause(first.ctx))
		}
	})
}

func TestOnReadyThatFailsFailsTheAttempt(t *testing.T) {
	t.Parallel()
	errMine := errors.New("no observers")
	for name, tt := range map[string]struct {
		f    func(context.Context, grpc.ClientConnInterface) error
		want string
	}{
		"error":   {func(context.Context, grpc.ClientConnInterface) error { return errMine }, "no observers"},
		"panic":   {func(context.Context, grpc.ClientConnInterface) error { panic("boom") }, "callback panicked: boom"},
		"no end":  {func(ctx context.Context, _ grpc.ClientConnInterface) error { <-ctx.Done(); return nil }, "callback has not returned"},
		"no call": {failingCall, "no such service"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a")
				refuse := func(context.Context) error { return status.Error(codes.Unimplemented, "no such service") }
				c.servers["a:35000"].info.Store(&refuse)
				_, events := c.connect(t, "chronicle://a", evenkeel.WithOnReady(tt.f))
				e := events.await(t, evenkeel.EventBackingOff, 1)
				attempt, ok := errors.AsType[*evenkeel.AttemptError](e.Err)
				if !ok || len(attempt.Failures) != 1 || attempt.Failures[0].Step != evenkeel.StepOnReady {
					t.Fatalf("attempt failed with %v, want the step on ready", e.Err)
				}
				if !strings.Contains(e.Err.Error(), tt.want) {
					t.Errorf("attempt failed with %v, want %q", e.Err, tt.want)
				}
			})
		})
	}
}

func failingCall(ctx context.Context, conn grpc.ClientConnInterface) error {
	_, err := version(ctx, conn)
	return err
}

// hinted remembers whether a selection was to reserve.
type hinted struct {
	balance.Strategy
	wanted atomic.Bool
}

func (h *hinted) Select(ctx context.Context, candidates []discover.Endpoint) (balance.Selection, error) {
	h.wanted.Store(balance.ReservationWanted(ctx))
	return h.Strategy.Select(ctx, candidates)
}

func TestWithoutSessionTheServerSeesNoConnectStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		counted := &hinted{Strategy: balance.NewRoundRobin()}
		conn, events := c.connect(t, "chronicle://a,b", evenkeel.WithoutSession(), evenkeel.WithStrategy(counted))
		events.await(t, evenkeel.EventConnected, 1)
		time.Sleep(time.Hour)
		server, err := version(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.servers[server+":35000"].connects.Load(); got != 0 {
			t.Errorf("the server saw %d sessions, want none", got)
		}
		if counted.wanted.Load() {
			t.Error("a client that the server does not count was to reserve a place")
		}
		c.servers[server+":35000"].cutOff()
		lost, again := events.await(t, evenkeel.EventLost, 1), events.await(t, evenkeel.EventConnected, 2)
		if d := again.Time.Sub(lost.Time); d > 10*time.Millisecond {
			t.Errorf("connected again after %v, want no jitter", d)
		}
	})
}

// A stock server allows 100 streams on a connection. What is beyond would hang, the keep-alives with it.
func TestMoreStreamsThanAConnectionHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		conn, events := c.connect(t, "chronicle://a")
		events.await(t, evenkeel.EventConnected, 1)
		const streams = 150
		for range streams {
			openStream(t.Context(), t, conn)
		}
		if _, err := version(t.Context(), conn); err != nil {
			t.Errorf("a call beside %d streams failed: %v", streams, err)
		}
		if got := c.dials.Load(); got != 3 {
			t.Errorf("%d connections were made, want 3 of 64 calls each", got)
		}
		time.Sleep(time.Minute)
		if got := conn.Status(); got.State != evenkeel.StateReady || got.Generation != 1 {
			t.Errorf("status is %+v, want the first session", got)
		}
		c.servers["a:35000"].cutOffOne(2)
		if lost := events.await(t, evenkeel.EventLost, 1); !errors.Is(lost.Err, evenkeel.ErrTransportLost) {
			t.Errorf("cause is %v, want the loss of one of the connections", lost.Err)
		}
	})
}

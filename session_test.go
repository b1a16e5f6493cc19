// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Parallel()
	synctest.Test(t, f)
}

func TestASessionStaysUpForAnHour(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		conn, events := c.connect(t, "chronicle://a")
		connected := events.await(t, evenkeel.EventConnected, 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []evenkeel.EventKind{
			evenkeel.EventResolving, evenkeel.EventResolved, evenkeel.EventSelected, evenkeel.EventConnected,
		}
		if got := events.kinds(); !slices.Equal(got, want) {
			t.Errorf("events are %v, want %v", got, want)
		}
		s := conn.Status()
		if s.State != evenkeel.StateReady || s.Generation != 1 || s.Endpoint.Addr() != "a:35000" || s.Err != nil {
			t.Errorf("status is %+v", s)
		}
		if d := s.ReadySince.Sub(connected.Time); d < -time.Second || d > time.Second {
			t.Errorf("ready since %v, connected at %v", s.ReadySince, connected.Time)
		}
		if got := conn.Server().Addr(); got != "a:35000" {
			t.Errorf("server is %q, want a:35000", got)
		}
	})
}

// A session that is lost is replaced on the other server, at once.
func TestEveryWayOfLosingASession(t *testing.T) {
	t.Parallel()
	const after = 40 * time.Second // the session is a steady one by then
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name  string
		spoil func(*memoryServer)
		cause error
		text  string
		// The time from the fault to the loss. The last good keep-alive came up to a second before the fault.
		least, most time.Duration
	}{
		{
			name: "the server sends no keep-alives",
			spoil: func(s *memoryServer) {
				silent := func(int, string) (string, error) { return "", nil }
				s.pulse.Store(&silent)
			},
			cause: evenkeel.ErrSilent, text: "no keep-alive from the server for 5 s",
			least: 4 * time.Second, most: 5 * time.Second,
		},
		{
			name:  "the server answers no keep-alive",
			spoil: func(s *memoryServer) { s.answer.Store(&hang) },
			cause: evenkeel.ErrUnanswered, text: "no keep-alive answered for 4 s",
			least: 3 * time.Second, most: 4 * time.Second,
		},
		{
			name: "a keep-alive has another id",
			spoil: func(s *memoryServer) {
				foreign := func(int, string) (string, error) { return "somebody else", nil }
				s.pulse.Store(&foreign)
			},
			cause: evenkeel.ErrWrongID, text: "id of another connection", most: time.Second,
		},
		{
			name: "the server ends the stream",
			spoil: func(s *memoryServer) {
				end := func(int, string) (string, error) { return "", errEndOK }
				s.pulse.Store(&end)
			},
			cause: evenkeel.ErrStreamEnded, text: "server ended the session", most: time.Second,
		},
		{
			name: "the server ends the stream with a status",
			spoil: func(s *memoryServer) {
				end := func(int, string) (string, error) { return "", status.Error(codes.Unavailable, "evicted") }
				s.pulse.Store(&end)
			},
			cause: evenkeel.ErrStreamEnded, text: "evicted", most: time.Second,
		},
		{
			name:  "the connection breaks",
			spoil: (*memoryServer).cutOff,
			cause: evenkeel.ErrTransportLost, text: "connection to the server lost",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a", "b")
				conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin")
				events.await(t, evenkeel.EventConnected, 1)
				time.Sleep(after)
				first := conn.Server().Addr()
				fault := time.Now()
				tt.spoil(c.servers[first])

				lost := events.await(t, evenkeel.EventLost, 1)
				if !errors.Is(lost.Err, tt.cause) || !strings.Contains(lost.Err.Error(), tt.text) {
					t.Errorf("cause is %v, want %v with %q", lost.Err, tt.cause, tt.text)
				}
				if d := lost.Time.Sub(fault); tt.most > 0 && (d < tt.least || d > tt.most) {
					t.Errorf("lost after %v, want %v to %v", d, tt.least, tt.most)
				}
				again := events.await(t, evenkeel.EventConnected, 2)
				if d := again.Time.Sub(lost.Time); d > 250*time.Millisecond {
					t.Errorf("connected again after %v, want at most the jitter of 250ms", d)
				}
				if again.Endpoint.Addr() == first {
					t.Errorf("connected to %s again, which was just lost", first)
				}
				if again.Generation != 2 {
					t.Errorf("generation is %d, want 2", again.Generation)
				}
			})
		})
	}
}

func TestANewConnectionIDForEveryAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		conn, events := c.connect(t, "chronicle://a")
		seen := make(map[string]bool)
		for n := range 5 {
			events.await(t, evenkeel.EventConnected, n+1)
			if err := conn.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			id := conn.Status().ConnectionID
			if len(id) != 36 || seen[id] {
				t.Errorf("id %d is %q, want a new UUID", n+1, id)
			}
			seen[id] = true
			time.Sleep(10 * time.Second)
			c.servers["a:35000"].cutOff()
		}
	})
}

func TestTheNextCandidateIsTriedInTheSameAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b", "c")
		c.refuse.Store("a", true)
		refuse := func(int, string) (string, error) { return "", status.Error(codes.PermissionDenied, "not you") }
		c.servers["b:35000"].pulse.Store(&refuse)
		_, events := c.connect(t, "chronicle://a,b,c?loadBalancer=round-robin")
		connected := events.await(t, evenkeel.EventConnected, 1)
		if got := connected.Endpoint.Addr(); got != "c:35000" {
			t.Errorf("connected to %s, want c:35000", got)
		}
		for _, k := range events.kinds() {
			if k == evenkeel.EventBackingOff {
				t.Errorf("it backed off although a server was left: %s", events)
			}
		}
	})
}

func TestFailedAttemptsBackOffAndNameEveryServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		c.refuse.Store("a", true)
		refuse := func(int, string) (string, error) { return "", status.Error(codes.Unimplemented, "no such service") }
		c.servers["b:35000"].pulse.Store(&refuse)
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=random")
		last := time.Time{}
		for n, rung := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			e := events.await(t, evenkeel.EventBackingOff, n+1)
			if rung *= time.Second; e.Wait < rung/2 || e.Wait > rung {
				t.Errorf("wait %d is %v, want between %v and %v", n+1, e.Wait, rung/2, rung)
			}
			if !last.IsZero() && e.Time.Before(last) {
				t.Errorf("attempt %d began %v early", n+1, last.Sub(e.Time))
			}
			last = e.Time.Add(e.Wait)
			for _, part := range []string{"dial a:35000: connection refused", "connect b:35000: ", "no such service"} {
				if !strings.Contains(e.Err.Error(), part) {
					t.Errorf("error is %q, want %q in it", e.Err, part)
				}
			}
		}
		attempt, ok := errors.AsType[*evenkeel.AttemptError](conn.Status().Err)
		if !ok || len(attempt.Failures) != 2 {
			t.Fatalf("status has %v, want both failures", conn.Status().Err)
		}
		c.refuse.Delete("a")
		if got := events.await(t, evenkeel.EventConnected, 1).Endpoint.Addr(); got != "a:35000" {
			t.Errorf("connected to %s, want a:35000", got)
		}
	})
}

func TestASessionThatIsLostAtOnceIsReplacedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin")
		events.await(t, evenkeel.EventConnected, 1)
		c.servers[conn.Server().Addr()].cutOff()
		lost, again := events.await(t, evenkeel.EventLost, 1), events.await(t, evenkeel.EventConnected, 2)
		if d := again.Time.Sub(lost.Time); d > 250*time.Millisecond {
			t.Errorf("connected again after %v, want at most the jitter of 250ms", d)
		}
	})
}

// A server that accepts and drops at once, time and again, would otherwise be dialled in a tight loop.
func TestTheSecondSessionInARowThatEndsAtOnceCountsAsAFailedAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		flap := func(n int, id string) (string, error) {
			if n > 0 {
				return "", errEndOK
			}
			return id, nil
		}
		c.servers["a:35000"].pulse.Store(&flap)
		drop := func(context.Context) error { return nil }
		c.servers["a:35000"].answer.Store(&drop)
		_, events := c.connect(t, "chronicle://a")
		for n, rung := range []time.Duration{1, 2, 4} {
			rung *= time.Second
			if e := events.await(t, evenkeel.EventBackingOff, n+1); e.Wait < rung/2 || e.Wait > rung {
				t.Errorf("wait %d is %v, want between %v and %v", n+1, e.Wait, rung/2, rung)
			}
		}
	})
}

func TestCallsWhileNotReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		c.refuse.Store("a", true)
		conn, events := c.connect(t, "chronicle://a")
		events.await(t, evenkeel.EventBackingOff, 1)

		_, err := version(t.Context(), conn)
		if status.Code(err) != codes.Unavailable || !errors.Is(err, errRefused) {
			t.Errorf("while backing off a call fails with %v, want Unavailable and the cause", err)
		}
		_, err = clientspb.NewConnectionServiceClient(conn).Connect(t.Context(), &clientspb.ConnectRequest{})
		if status.Code(err) != codes.Unavailable || !errors.Is(err, errRefused) {
			t.Errorf("while backing off a stream fails with %v, want Unavailable and the cause", err)
		}

		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = version(short, conn, grpc.WaitForReady(true))
		cancel()
		if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("a call that waits for ready fails with %v, want DeadlineExceeded and the cause", err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = version(cancelled, conn, grpc.WaitForReady(true)); status.Code(err) != codes.Canceled {
			t.Errorf("a cancelled call fails with %v, want Canceled", err)
		}

		c.refuse.Delete("a")
		long, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := version(long, conn, grpc.WaitForReady(true)); err != nil || got != "a" {
			t.Errorf("a call that waits for ready got %q, %v, want a", got, err)
		}
	})
}

func TestCallsWaitForTheFirstAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		conn, _ := c.connect(t, "chronicle://a")
		if got, err := version(t.Context(), conn); err != nil || got != "a" {
			t.Errorf("got %q, %v, want a", got, err)
		}
	})
}

func TestACallThatALostSessionCutsOffIsUnavailable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		conn, events := c.connect(t, "chronicle://a")
		events.await(t, evenkeel.EventConnected, 1)
		entered := make(chan struct{})
		hang := func(ctx context.Context) error { close(entered); <-ctx.Done(); return ctx.Err() }
		c.servers["a:35000"].info.Store(&hang)
		stream := openStream(t.Context(), t, conn)
		streamErr := make(chan error, 1)
		go func() {
			for {
				if _, err := stream.Recv(); err != nil {
					streamErr <- err
					return
				}
			}
		}()
		go func() {
			<-entered
			// Only the session's own stream ends: the connection still works, and the client closes it.
			end := func(int, string) (string, error) { return "", status.Error(codes.Aborted, "session over") }
			c.servers["a:35000"].pulse.Store(&end)
		}()
		_, err := version(t.Context(), conn)
		if status.Code(err) != codes.Unavailable || !errors.Is(err, evenkeel.ErrStreamEnded) {
			t.Errorf("the call failed with %v, want Unavailable with the cause", err)
		}
		if err := <-streamErr; status.Code(err) != codes.Unavailable || !errors.Is(err, evenkeel.ErrStreamEnded) {
			t.Errorf("the stream failed with %v, want Unavailable with the cause", err)
		}
	})
}

func TestCallsAfterCloseAreCanceled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		conn, events := c.connect(t, "chronicle://a")
		events.await(t, evenkeel.EventConnected, 1)
		entered, failed := make(chan struct{}), make(chan error, 1)
		hang := func(ctx context.Context) error { close(entered); <-ctx.Done(); return ctx.Err() }
		c.servers["a:35000"].info.Store(&hang)
		go func() {
			_, err := version(t.Context(), conn)
			failed <- err
		}()
		<-entered
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		for _, err := range []error{<-failed, errorOf(version(t.Context(), conn, grpc.WaitForReady(true)))} {
			if status.Code(err) != codes.Canceled || !errors.Is(err, evenkeel.ErrClosed) {
				t.Errorf("got %v, want Canceled and ErrClosed", err)
			}
		}
		if got := conn.State(); got != evenkeel.StateShutdown {
			t.Errorf("state is %v, want shutdown", got)
		}
		if err := conn.WaitReady(t.Context()); !errors.Is(err, evenkeel.ErrClosed) {
			t.Errorf("WaitReady returned %v, want ErrClosed", err)
		}
		kinds := events.kinds()
		if last := kinds[len(kinds)-1]; last != evenkeel.EventClosed {
			t.Errorf("last event is %v, want closed", last)
		}
	})
}

func errorOf(_ string, err error) error { return err }

func TestDialWaitsForTheDeadlineAndSaysWhatFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		c.refuse.Store("a", true)
		began := time.Now()
		_, err := evenkeel.Dial(t.Context(), "chronicle://a", evenkeel.WithDialerForTest(c.dial), evenkeel.WithPlaintext())
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errRefused) {
			t.Errorf("Dial returned %v, want the deadline and the cause", err)
		}
		if d := time.Since(began); d != 30*time.Second {
			t.Errorf("Dial took %v, want 30s", d)
		}
	})
}

// A server that fails after it was picked is left alone for a while, so that one which answers probes and cannot
// serve does not attract everyone.
func TestAFailedServerIsPenalised(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin")
		events.await(t, evenkeel.EventConnected, 1)
		time.Sleep(10 * time.Second) // too short to be a steady session
		first := conn.Server().Addr()
		c.servers[first].cutOff()
		second := events.await(t, evenkeel.EventConnected, 2).Endpoint.Addr()
		if second == first {
			t.Fatalf("connected to %s again", first)
		}
		// The second one is lost too: both are penalised now, and the one just lost comes last.
		time.Sleep(10 * time.Second)
		c.servers[second].cutOff()
		if third := events.await(t, evenkeel.EventConnected, 3).Endpoint.Addr(); third != first {
			t.Errorf("connected to %s, want %s", third, first)
		}
	})
}

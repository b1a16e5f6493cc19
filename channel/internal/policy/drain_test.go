// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// holdOn opens streams until one is on the server.
func (c *client) holdOn(ctx context.Context, addr string) grpc.ClientStream {
	c.tb.Helper()
	for range 200 {
		each, cancel := context.WithCancel(ctx)
		stream, got := c.hold(each)
		if got == addr {
			c.tb.Cleanup(cancel)
			return stream
		}
		cancel()
	}
	c.tb.Fatalf("no stream came to %s", addr)
	return nil
}

// ended waits for the end of a stream in the background.
func ended(stream grpc.ClientStream) <-chan error {
	done := make(chan error, 1)
	go func() { done <- stream.RecvMsg(new(wrapperspb.StringValue)) }()
	return done
}

func TestStreamsOnARemovedEndpointEndAtTheDeadline(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		c := w.client(name, `{"drainTimeout":"7s"}`)
		c.update("a", "b")
		settle()
		removed, kept := c.holdOn(t.Context(), "b"), c.holdOn(t.Context(), "a")
		doneRemoved, doneKept := ended(removed), ended(kept)
		c.update("a")
		begin := time.Now()
		err := <-doneRemoved
		if took := time.Since(begin); status.Code(err) != codes.Unavailable || took != 7*time.Second {
			t.Errorf("got %v after %v, want Unavailable after 7s", err, took)
		}
		time.Sleep(time.Hour)
		select {
		case err := <-doneKept:
			t.Errorf("the stream on the endpoint that stayed ended: %v", err)
		default:
		}
		if got := nodes[1].open.Load(); got != 0 {
			t.Errorf("%d connections to the removed endpoint are open", got)
		}
		if got := w.dialled("b"); got != 1 {
			t.Errorf("the removed endpoint was dialled %d times, want 1", got)
		}
	})
}

func TestDrainTakesThirtySecondsUnlessTold(t *testing.T) {
	for _, config := range []string{`{}`, `{"drainTimeout":"0s"}`, `{"drainTimeout":null}`} {
		t.Run(config, func(t *testing.T) {
			bubbles(t, func(t *testing.T, w *world, name string) {
				w.startAll("a", "b")
				c := w.client(name, config)
				c.update("b")
				done := ended(c.holdOn(t.Context(), "b"))
				begin := time.Now()
				c.update("a")
				if err := <-done; status.Code(err) != codes.Unavailable {
					t.Errorf("got %v, want Unavailable", err)
				}
				if took := time.Since(begin); took != 30*time.Second {
					t.Errorf("drained for %v, want 30s", took)
				}
			})
		})
	}
}

func TestStreamThatEndsWithinTheDrainIsNotHurt(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		c := w.client(name, "{}")
		c.update("b")
		stream := c.holdOn(t.Context(), "b")
		done := ended(stream)
		c.update("a")
		time.Sleep(10 * time.Second)
		go nodes[1].server.GracefulStop() // the server ends it in good order: first GOAWAY
		synctest.Wait()
		wantServers(t, c, "a")
		select {
		case err := <-done:
			t.Errorf("ended early: %v", err)
		default:
		}
		time.Sleep(30 * time.Second)
		if err := <-done; status.Code(err) != codes.Unavailable {
			t.Errorf("got %v, want the end of the drain", err)
		}
		if got := w.dialled("b"); got != 1 {
			t.Errorf("a draining endpoint whose server said goodbye was dialled %d times, want 1", got)
		}
	})
}

func TestEndpointThatComesBackWhileItDrainsKeepsItsConnection(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		c := w.client(name, "{}")
		c.update("a", "b")
		settle()
		done := ended(c.holdOn(t.Context(), "b"))
		c.holdOn(t.Context(), "a") // so that the one is as busy as the other
		for range 5 {
			c.update("a")
			time.Sleep(20 * time.Second)
			wantServers(t, c, "a")
			c.update("b", "a")
			time.Sleep(20 * time.Second)
			wantServers(t, c, "a", "b")
		}
		time.Sleep(time.Hour)
		select {
		case err := <-done:
			t.Errorf("the stream ended: %v", err)
		default:
		}
		if got := nodes[1].accepted.Load(); got != 1 {
			t.Errorf("got %d connections, want 1", got)
		}
	})
}

func TestEndpointThatComesBackAfterItsConnectionWasLostIsDialled(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		c := w.client(name, "{}")
		c.update("a", "b")
		settle()
		c.update("a")
		nodes[1].stop()
		w.start("b")
		time.Sleep(5 * time.Second)
		if got := w.dialled("b"); got != 1 {
			t.Errorf("a removed endpoint was dialled %d times, want 1", got)
		}
		c.update("a", "b")
		settle()
		wantServers(t, c, "a", "b")
	})
}

func TestRemovedEndpointThatFailsIsNotDialledAgain(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.start("a")
		w.setHang("slow", true)
		c := w.client(name, "{}")
		c.update("a", "x", "slow")
		settle()
		c.update("a")
		synctest.Wait()
		dials := w.dialled("x") + w.dialled("slow")
		time.Sleep(time.Hour)
		if got := w.dialled("x") + w.dialled("slow") - dials; got != 0 {
			t.Errorf("removed endpoints were dialled %d times", got)
		}
	})
}

func TestUnaryCallsAreNeverHurtWhileTheSetChanges(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll("a", "b", "c")
		c := w.client(name, `{"drainTimeout":"0.06s"}`)
		c.update("a", "b", "c")
		settle()
		stop := make(chan struct{})
		failed := make(chan error, 8)
		for range cap(failed) {
			go func() {
				for {
					select {
					case <-stop:
						failed <- nil
						return
					default:
					}
					if _, err := c.who(); err != nil {
						failed <- err
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}()
		}
		sets := [][]string{{"a", "b"}, {"c"}, {"a", "b", "c"}, {"b"}, {"c", "a"}}
		for i := range 100 {
			c.update(sets[i%len(sets)]...)
			time.Sleep(25 * time.Millisecond)
		}
		close(stop)
		for range cap(failed) {
			if err := <-failed; err != nil {
				t.Errorf("a call failed: %v", err)
			}
		}
	})
}

func TestPolicySwitchLeavesDrainToTheNextPolicy(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll("a", "b")
		c := w.client(name, `{"drainTimeout":"5s"}`)
		c.update("b")
		done := ended(c.holdOn(t.Context(), "b"))
		c.update("a")
		settle()
		parsed := c.resolver.CC().ParseServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`)
		state := c.resolver.CC()
		if err := state.UpdateState(stateOf(parsed, "a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		wantServers(t, c, "a")
		select {
		case err := <-done:
			t.Errorf("the stream was cut by a policy that is closed: %v", err)
		default:
		}
	})
}

// TestDrainCutsRealSockets does on loopback what the bubbles do in memory, with TLS and credentials per call.
func TestDrainCutsRealSockets(t *testing.T) {
	t.Parallel()
	for _, how := range securities(t) {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			w := newLoopback(t)
			a, b := w.start("", how.server...), w.start("", how.server...)
			c := w.client(policies()[0], `{"drainTimeout":"0.2s"}`, how.client...)
			c.update(b.addr)
			stream, _ := c.hold(t.Context())
			done := ended(stream)
			c.update(a.addr)
			wantServers(t, c, a.addr)
			select {
			case err := <-done:
				if status.Code(err) != codes.Unavailable || errors.Is(err, io.EOF) {
					t.Errorf("got %v, want Unavailable", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("the stream was not cut")
			}
			if got := b.accepted.Load(); got != 1 {
				t.Errorf("the removed server accepted %d connections, want 1", got)
			}
		})
	}
}

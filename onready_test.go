// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// preferring is a strategy that takes the first candidate of the list.
type preferring struct{}

func (preferring) Select(_ context.Context, candidates []discover.Endpoint) (balance.Selection, error) {
	return balance.Selection{Endpoint: candidates[0]}, nil
}

// The call of the callback heeds its context, which lives as long as the session does: the attempt's time runs out. The
// server that took it all is not the first to be tried again.
func TestAServerOnWhichTheCallbackHangsIsPenalised(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		c.servers["a:35000"].info.Store(&hang)
		conn, events := c.connect(t, "chronicle://a,b", evenkeel.WithStrategy(preferring{}),
			evenkeel.WithOnReady(func(ctx context.Context, bound grpc.ClientConnInterface) error {
				_, err := version(ctx, bound)
				return err
			}))
		connected := events.await(t, evenkeel.EventConnected, 1)
		if connected.Endpoint.Host != "b" || conn.Status().Generation != 1 {
			t.Errorf("ready on %s, want b", connected.Endpoint.Host)
		}
		failed := events.all(evenkeel.EventCandidateFailed)
		if len(failed) != 1 || failed[0].Endpoint.Host != "a" || !strings.Contains(failed[0].Err.Error(), "longer than 30 s") {
			t.Errorf("candidates that failed: %v, want a, for the time it took", failed)
		}
	})
}

func TestASessionThatIsLostDuringTheCallbackIsNotReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		conn, events := c.connect(t, "chronicle://a,b", evenkeel.WithStrategy(preferring{}),
			evenkeel.WithOnReady(func(_ context.Context, bound grpc.ClientConnInterface) error {
				if server, err := version(t.Context(), bound); err != nil || server != "a" {
					return err
				}
				c.servers["a:35000"].cutOff()
				time.Sleep(3 * time.Second)
				return nil
			}))
		if connected := events.await(t, evenkeel.EventConnected, 1); connected.Endpoint.Host != "b" {
			t.Errorf("ready on %s, whose session was lost", connected.Endpoint.Host)
		}
		failed := events.all(evenkeel.EventCandidateFailed)
		if len(failed) != 1 || !errors.Is(failed[0].Err, evenkeel.ErrTransportLost) {
			t.Errorf("candidates that failed: %v, want a, for the loss", failed)
		}
		if got := conn.State(); got != evenkeel.StateReady {
			t.Errorf("state is %v", got)
		}
	})
}

// runtime.Goexit, which testing.T.FailNow calls, is no answer.
func TestACallbackThatEndsItsGoroutineFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		var events atomic.Int64
		conn, _ := c.connect(t, "chronicle://a,b", evenkeel.WithStrategy(preferring{}),
			evenkeel.WithEvents(func(e evenkeel.Event) {
				events.Add(1)
				if e.Kind == evenkeel.EventResolved {
					runtime.Goexit()
				}
			}),
			evenkeel.WithOnReady(func(_ context.Context, bound grpc.ClientConnInterface) error {
				if server, err := version(t.Context(), bound); err != nil || server != "a" {
					return err
				}
				runtime.Goexit()
				return nil
			}))
		if err := conn.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := conn.Server().Host; got != "b" {
			t.Errorf("ready on %s, where the callback did not come to its end", got)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		// resolving, resolved, selected, candidate failed, selected, connected, closed
		if got := events.Load(); got != 7 {
			t.Errorf("the callback was called %d times, want 7", got)
		}
	})
}

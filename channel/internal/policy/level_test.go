// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
)

// ranked makes endpoints with priorities: "a0" is called a and has priority 0.
func ranked(names ...string) []resolver.Endpoint {
	endpoints := make([]resolver.Endpoint, len(names))
	for i, name := range names {
		endpoints[i] = policy.SetPriority(at(name[:1]), uint16(name[1]-'0'))
	}
	return endpoints
}

func TestPriorityIsKeptByTheEndpoint(t *testing.T) {
	t.Parallel()
	if got := policy.Priority(at("a")); got != 0 {
		t.Errorf("got priority %d of an endpoint without one, want 0", got)
	}
	if got := policy.Priority(policy.SetPriority(at("a"), 7)); got != 7 {
		t.Errorf("got priority %d, want 7", got)
	}
}

func TestOnlyTheBestPriorityIsDialledAndCalled(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll("a", "b", "c")
		c := w.client(name, "{}")
		c.updateEndpoints(ranked("c2", "a0", "b0")...)
		settle()
		wantServers(t, c, "a", "b")
		time.Sleep(time.Hour)
		if got := w.dialled("c"); got != 0 {
			t.Errorf("the lower priority was dialled %d times though it is not needed", got)
		}
	})
}

func TestLowerPriorityStandsInWhenAllHigherFail(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b", "c")
		c := w.client(name, "{}")
		c.updateEndpoints(ranked("a0", "b0", "c1")...)
		settle()
		nodes[0].stop()
		settle()
		wantServers(t, c, "b")
		if got := w.dialled("c"); got != 0 {
			t.Errorf("the lower priority was dialled %d times while a higher one was ready", got)
		}
		nodes[1].stop()
		settle()
		wantServers(t, c, "c")
		w.start("b")
		time.Sleep(5 * time.Minute) // gRPC's backoff has an end
		wantServers(t, c, "b")
	})
}

func TestLowerPriorityStandsInAfterTenSecondsOfSilence(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll("a", "b")
		w.setHang("a", true)
		c := w.client(name, "{}")
		c.updateEndpoints(ranked("a0", "b1")...)
		time.Sleep(9 * time.Second)
		if got := w.dialled("b"); got != 0 {
			t.Errorf("the lower priority was dialled %d times within 10 s", got)
		}
		time.Sleep(1100 * time.Millisecond)
		wantServers(t, c, "b")
	})
}

func TestLowerPriorityIsKeptAWhileAndStandsInAtOnce(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		b := w.start("b")
		c := w.client(name, "{}")
		c.updateEndpoints(ranked("a0", "b1")...)
		settle()
		wantServers(t, c, "b")
		done := ended(c.holdOn(t.Context(), "b"))
		a := w.start("a")
		time.Sleep(30 * time.Second)
		wantServers(t, c, "a")
		w.setHang("a", true)
		a.stop()
		synctest.Wait() // no time passes
		wantServers(t, c, "b")
		if got := b.accepted.Load(); got != 1 {
			t.Errorf("the lower priority was connected %d times, want 1", got)
		}
		w.setHang("a", false)
		w.start("a")
		time.Sleep(time.Minute)
		wantServers(t, c, "a")
		time.Sleep(16 * time.Minute)
		select {
		case err := <-done:
			t.Errorf("the stream on an endpoint that is still in the set was cut: %v", err)
		default:
		}
	})
}

func TestParkedPriorityIsReleased(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		b := w.start("b")
		c := w.client(name, "{}")
		c.updateEndpoints(ranked("a0", "b1")...)
		settle()
		wantServers(t, c, "b")
		w.start("a")
		time.Sleep(20 * time.Minute)
		wantServers(t, c, "a")
		if got := b.open.Load(); got != 0 {
			t.Errorf("%d connections to the lower priority are open, want 0 after 15 minutes", got)
		}
	})
}

func TestPriorityMayChange(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		c := w.client(name, "{}")
		c.updateEndpoints(ranked("a0", "b1")...)
		settle()
		wantServers(t, c, "a")
		c.updateEndpoints(ranked("a1", "b0")...)
		settle()
		wantServers(t, c, "b")
		c.updateEndpoints(ranked("a3", "b3")...)
		settle()
		wantServers(t, c, "a", "b")
		if got := nodes[0].accepted.Load() + nodes[1].accepted.Load(); got != 2 {
			t.Errorf("got %d connections, want 2", got)
		}
	})
}

func TestLowerPriorityThatIsRemovedDrains(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		c := w.client(name, "{}")
		c.updateEndpoints(ranked("b1")...)
		settle()
		c.updateEndpoints(ranked("a0", "b1")...)
		settle()
		wantServers(t, c, "a")
		c.updateEndpoints(ranked("a0")...)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if got := nodes[1].open.Load(); got != 0 {
			t.Errorf("%d connections to the removed endpoint are open", got)
		}
	})
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
)

// settle lets what is under way come to rest, with the time that joiners are kept waiting.
func settle() {
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
}

// policies are tested alike where the choice does not matter.
func policies() []string { return []string{policy.RoundRobin, policy.Random, policy.LeastRequest} }

// bubbles runs a test for each policy in a bubble of its own.
func bubbles(t *testing.T, f func(t *testing.T, w *world, name string)) {
	t.Helper()
	t.Parallel()
	for _, name := range policies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(t, newWorld(t), name) })
		})
	}
}

// wantServers checks which servers answer.
func wantServers(tb testing.TB, c *client, want ...string) {
	tb.Helper()
	got := slices.Sorted(maps.Keys(c.tally(40 * len(want))))
	if !slices.Equal(got, want) {
		tb.Errorf("got answers from %q, want %q", got, want)
	}
}

func TestNewAddressGetsCalls(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll("a", "b")
		c := w.client(name, "{}")
		c.update("a")
		wantServers(t, c, "a")
		c.update("a", "b")
		settle()
		wantServers(t, c, "a", "b")
	})
}

func TestRemovedAddressGetsNoCallFromThatMoment(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		c := w.client(name, "{}")
		c.update("a", "b")
		settle()
		wantServers(t, c, "a", "b")
		before := nodes[1].calls.Load()
		c.update("a")
		c.tally(100)
		if got := nodes[1].calls.Load() - before; got != 0 {
			t.Errorf("the removed server got %d calls, want 0", got)
		}
	})
}

func TestSameAnswerLeavesConnectionsAndPickerAlone(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b", "c")
		c := w.client(name, "{}")
		c.update("a", "b", "c")
		settle()
		for i := range 50 {
			type key struct{}
			endpoints := []resolver.Endpoint{at("c"), at("b"), at("a")}
			for j := range endpoints {
				e := &endpoints[(i+j)%3]
				e.Attributes = e.Attributes.WithValue(key{}, new(int))
				e.Addresses[0].Attributes = e.Addresses[0].Attributes.WithValue(key{}, new(int))
			}
			c.updateEndpoints(endpoints...)
			settle()
		}
		wantServers(t, c, "a", "b", "c")
		for _, n := range nodes {
			if got := n.accepted.Load(); got != 1 {
				t.Errorf("server %s accepted %d connections, want 1", n.addr, got)
			}
		}
	})
}

func TestDisjointAnswerMovesEverythingWithoutAFailedCall(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll("a", "b", "c", "d")
		c := w.client(name, "{}")
		c.update("a", "b")
		settle()
		wantServers(t, c, "a", "b")
		c.update("c", "d")
		c.tally(10) // at once: these wait for the new connections
		settle()
		wantServers(t, c, "c", "d")
	})
}

func TestSeveralAnswersAddUp(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll("a", "b", "c", "d")
		c := w.client(name, "{}")
		for _, set := range []string{"a", "ab", "bc", "abd", "acd"} {
			c.update(strings.Split(set, "")...)
			settle()
			wantServers(t, c, strings.Split(set, "")...)
		}
	})
}

func TestPortChangeIsANewEndpoint(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll("10.0.0.1:1", "10.0.0.1:2")
		c := w.client(name, "{}")
		c.update("10.0.0.1:1")
		wantServers(t, c, "10.0.0.1:1")
		c.update("10.0.0.1:2")
		wantServers(t, c, "10.0.0.1:2")
	})
}

func TestServerNameChangeIsANewEndpoint(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		n := w.start("a")
		c := w.client(name, "{}")
		for _, serverName := range []string{"one.test", "two.test"} {
			endpoint := at("a")
			endpoint.Addresses[0].ServerName = serverName
			c.updateEndpoints(endpoint)
			c.tally(1)
		}
		if got := n.accepted.Load(); got != 2 {
			t.Errorf("got %d connections, want 2", got)
		}
	})
}

func TestErrorsAndEmptyAnswersKeepTheSet(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b", "c")
		c := w.client(name, "{}")
		c.update("a", "b")
		settle()
		c.resolver.CC().ReportError(fmt.Errorf("the name server is gone"))
		settle()
		wantServers(t, c, "a", "b")
		if err := c.resolver.CC().UpdateState(resolver.State{}); err == nil {
			t.Error("an empty answer was taken, want an error so that the resolver asks again")
		}
		settle()
		wantServers(t, c, "a", "b")
		for _, n := range nodes[:2] {
			if got := n.accepted.Load(); got != 1 {
				t.Errorf("server %s accepted %d connections, want 1", n.addr, got)
			}
		}
		c.update("c")
		wantServers(t, c, "c")
	})
}

func TestFailedLookupWithoutASetFailsCallsWithItsText(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.start("a")
		c := w.client(name, "{}")
		c.resolver.CC().ReportError(fmt.Errorf("no such host fleet.test"))
		_, err := c.who()
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no such host fleet.test") {
			t.Errorf("got %v, want Unavailable with the error of the lookup", err)
		}
		c.update("a")
		wantServers(t, c, "a")
	})
}

func TestCallsFailWithTheLastConnectionErrorsWhenAllEndpointsFail(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.start("a")
		c := w.client(name, "{}")
		c.update("a")
		wantServers(t, c, "a")
		c.update("x", "y")
		settle()
		_, err := c.who()
		if status.Code(err) != codes.Unavailable {
			t.Fatalf("got %v, want Unavailable", err)
		}
		for _, want := range []string{"no endpoint is usable", "x: ", "y: ", errRefused.Error()} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %q, want it to contain %q", err, want)
			}
		}
		c.resolver.CC().ReportError(fmt.Errorf("no such host fleet.test"))
		settle()
		if _, err = c.who(); !strings.Contains(fmt.Sprint(err), "no such host fleet.test") {
			t.Errorf("got %v, want it to tell of the lookup that failed as well", err)
		}
		if _, err = c.who(grpc.WaitForReady(true)); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v, want that a call that waits for ready does so until its deadline", err)
		}
	})
}

func TestFailedEndpointIsTriedAgainOnEachAnswer(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.start("a")
		c := w.client(name, "{}")
		c.update("a", "x")
		time.Sleep(10 * time.Minute) // gRPC's backoff has grown to about two minutes
		dials := w.dialled("x")
		for before := -1; before != dials; dials = w.dialled("x") { // until the last attempt is not of just now
			before = dials
			time.Sleep(25 * time.Second)
		}
		w.start("x")
		c.update("a", "x")
		settle()
		if got := w.dialled("x") - dials; got != 1 {
			t.Errorf("the answer led to %d dials, want 1", got)
		}
		wantServers(t, c, "a", "x")
	})
}

func TestFailedEndpointIsTriedAgainByItself(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.start("a")
		c := w.client(name, "{}")
		c.update("a", "x")
		settle()
		w.start("x")
		time.Sleep(3 * time.Second)
		wantServers(t, c, "a", "x")
	})
}

func TestStormOfAnswersDoesNotStormAFailedEndpoint(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.start("a")
		c := w.client(name, "{}")
		for range 1000 {
			c.update("a", "x")
			time.Sleep(10 * time.Millisecond)
		}
		if got := w.dialled("x"); got > 20 {
			t.Errorf("a failed endpoint was dialled %d times in 10 s of 1000 answers, want at most 20", got)
		}
	})
}

// TestAnswersForLongDoNotWearOutBackoff: every failed attempt asks for a lookup, and the answer must not ask for an
// attempt each time.
func TestAnswersForLongDoNotWearOutBackoff(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.start("a")
		hour := backoff.Config{BaseDelay: time.Hour, Multiplier: 1, MaxDelay: time.Hour} // so that only answers lead to attempts
		c := w.client(name, "{}", grpc.WithConnectParams(grpc.ConnectParams{Backoff: hour}))
		answers := func(n int) {
			for range n {
				c.update("a", "x")
				time.Sleep(time.Second)
			}
		}
		answers(30 * 60)
		if got := w.dialled("x"); got < 80 || got > 100 {
			t.Errorf("a failed endpoint was dialled %d times in half an hour of answers, want one in 20 s", got)
		}
		x := w.start("x")
		answers(21)
		wantServers(t, c, "a", "x")
		x.stop()
		time.Sleep(1500 * time.Millisecond)
		dials := w.dialled("x")
		answers(1)
		if got := w.dialled("x") - dials; got != 1 {
			t.Errorf("after a time of being ready an answer led to %d dials, want 1", got)
		}
	})
}

func TestRetriedEndpointDoesNotMakeCallsWait(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		c := w.client(name, "{}")
		c.update("x")
		time.Sleep(2 * time.Second)
		w.setHang("x", true)
		c.update("x")
		settle()
		begin := time.Now()
		if _, err := c.who(); status.Code(err) != codes.Unavailable || time.Since(begin) > time.Second {
			t.Errorf("got %v after %v, want Unavailable at once", err, time.Since(begin))
		}
	})
}

func TestLostConnectionLeavesRotationAtOnceAndIsMadeAgain(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		c := w.client(name, "{}")
		c.update("a", "b")
		settle()
		wantServers(t, c, "a", "b")
		nodes[1].stop()
		synctest.Wait() // no time passes
		wantServers(t, c, "a")
		w.start("b")
		time.Sleep(3 * time.Second)
		wantServers(t, c, "a", "b")
	})
}

func TestLostConnectionsAskForALookup(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		n := w.start("a")
		c := w.client(name, "{}")
		c.update("a")
		wantServers(t, c, "a")
		n.stop()
		synctest.Wait()
		if c.hints.Load() == 0 {
			t.Error("a connection that broke asked for no lookup")
		}
	})
}

func TestGoawayAsksForALookupAndMovesCalls(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		c := w.client(name, "{}")
		c.update("a", "b")
		settle()
		before := c.hints.Load()
		go nodes[1].server.GracefulStop()
		synctest.Wait()
		if c.hints.Load() == before {
			t.Error("a GOAWAY asked for no lookup")
		}
		wantServers(t, c, "a")
	})
}

func TestServerThatClosesEveryConnectionIsNotDialledWithoutEnd(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		n := w.start("a", grpc.ChainStreamInterceptor())
		c := w.client(name, "{}")
		c.update("a")
		for range 300 {
			synctest.Wait()
			n.server.Stop() // with its connections
			n = w.start("a")
			time.Sleep(100 * time.Millisecond)
		}
		if got := w.dialled("a"); got > 40 {
			t.Errorf("dialled %d times in 30 s, want at most 40", got)
		}
		time.Sleep(15 * time.Second)
		wantServers(t, c, "a")
	})
}

func TestBadConfigIsRefusedAndTheOldOneGoesOn(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll("a", "b")
		c := w.client(name, "{}")
		c.update("a")
		wantServers(t, c, "a")
		bad := c.resolver.CC().ParseServiceConfig(fmt.Sprintf(`{"loadBalancingConfig":[{%q:{"drainTimeout":"-1s"}}]}`, name))
		if bad.Err == nil {
			t.Fatal("a negative drainTimeout was taken")
		}
		_ = c.resolver.CC().UpdateState(resolver.State{Endpoints: []resolver.Endpoint{at("a")}, ServiceConfig: bad})
		settle()
		wantServers(t, c, "a")
		c.update("a", "b")
		settle()
		wantServers(t, c, "a", "b")
	})
}

func TestEndpointOfTwoAddressesIsOneConnection(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		v4, v6 := w.start("10.0.0.1:1"), w.start("[fd00::1]:1")
		c := w.client(name, "{}")
		both := func(addrs ...string) resolver.Endpoint {
			var e resolver.Endpoint
			for _, addr := range addrs {
				e.Addresses = append(e.Addresses, resolver.Address{Addr: addr})
			}
			return e
		}
		c.updateEndpoints(both("10.0.0.1:1", "[fd00::1]:1"))
		wantServers(t, c, "10.0.0.1:1")
		c.updateEndpoints(both("[fd00::1]:1", "10.0.0.1:1"))
		settle()
		wantServers(t, c, "10.0.0.1:1")
		if got := v4.accepted.Load() + v6.accepted.Load(); got != 1 {
			t.Errorf("got %d connections, want 1", got)
		}
		v4.stop()
		time.Sleep(time.Second)
		wantServers(t, c, "[fd00::1]:1")
	})
}

func TestRotationStartsAnywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := strings.Split("abcdefgh", "")
		firstDial, firstCall := make(map[string]int), make(map[string]int)
		for range 100 {
			w := newWorld(t)
			w.startAll(names...)
			c := w.client(policy.RoundRobin, "{}")
			c.update(names...)
			settle()
			firstDial[w.order[0]]++
			addr, err := c.who()
			if err != nil {
				t.Fatal(err)
			}
			firstCall[addr]++
			_ = c.Close()
		}
		for _, name := range names {
			// 100 of 8 have a mean of 12.5; none at all is one in 600 000.
			if firstDial[name] == 0 || firstCall[name] == 0 {
				t.Errorf("of 100 clients %d dialled and %d called %s first, want about 12", firstDial[name], firstCall[name], name)
			}
		}
	})
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		ctx := t.Context()
		for i := range 50 {
			c := w.client(name, "{}")
			c.update("a", "b", "x")
			if i%2 == 0 {
				settle()
				c.hold(ctx)
				c.update("a", "x")
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := nodes[0].open.Load() + nodes[1].open.Load(); got != 0 {
			t.Errorf("%d connections are left after Close", got)
		}
	})
}

func TestChannelComesBackFromIdle(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		n := w.start("a")
		c := w.client(name, "{}", grpc.WithIdleTimeout(time.Minute))
		c.update("a")
		wantServers(t, c, "a")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := c.GetState(); got != connectivity.Idle {
			t.Fatalf("got state %v, want idle", got)
		}
		if got := n.open.Load(); got != 0 {
			t.Errorf("%d connections are open in idle mode", got)
		}
		c.resolver.InitialState(resolver.State{Endpoints: []resolver.Endpoint{at("a")}})
		wantServers(t, c, "a")
	})
}

func TestWeightChangeTouchesNoConnection(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		c := w.client(name, "{}")
		for _, weights := range [][2]uint32{{1, 1}, {90, 10}, {0, 0}, {10, 90}} {
			c.updateEndpoints(weight.Set(at("a"), weight.EndpointInfo{Weight: weights[0]}), weight.Set(at("b"), weight.EndpointInfo{Weight: weights[1]}))
			settle()
			counts := c.tally(1000)
			share := float64(max(1, weights[0])) / float64(max(1, weights[0])+max(1, weights[1]))
			if got := float64(counts["a"]) / 1000; got < share-0.06 || got > share+0.06 {
				t.Errorf("weights %v: got share %.3f of the first, want about %.2f", weights, got, share)
			}
		}
		for _, n := range nodes {
			if got := n.accepted.Load(); got != 1 {
				t.Errorf("server %s accepted %d connections, want 1", n.addr, got)
			}
		}
	})
}

func TestWaitForReadyCallOutlivesAnOutage(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		c := w.client(name, "{}")
		c.update("a")
		settle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := c.who(grpc.WaitForReady(true))
			done <- err
		}()
		time.Sleep(3 * time.Second)
		w.start("a")
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-ctx.Done():
			t.Error("the call has not ended")
		}
	})
}

// pass lets time pass in a bubble, where it takes none.
func pass(d time.Duration) { time.Sleep(d) }

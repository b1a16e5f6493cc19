// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
)

const (
	four  = "10.0.0.1:1"
	five  = "10.0.0.2:1" // another server of the same family
	six   = "[fd00::1]:1"
	other = "10.0.0.9:1"
)

// together returns one endpoint of several addresses.
func together(addrs ...string) resolver.Endpoint {
	var e resolver.Endpoint
	for _, addr := range addrs {
		e.Addresses = append(e.Addresses, resolver.Address{Addr: addr})
	}
	return e
}

func wantRunning(tb testing.TB, what string, done <-chan error) {
	tb.Helper()
	select {
	case err := <-done:
		tb.Errorf("the stream %s was ended: %v", what, err)
	default:
	}
}

func TestStreamOutlivesAChangeOfShape(t *testing.T) {
	changes := []struct {
		name   string
		before resolver.Endpoint
		at     string // where the stream is
		after  []resolver.Endpoint
	}{
		{"second A record beside A and AAAA", together(four, six), four, []resolver.Endpoint{at(four), at(five), at(six)}},
		{"second A record, connected over the AAAA record", together(other, six), six, []resolver.Endpoint{at(other), at(five), at(six)}},
		{"AAAA record beside one A record", at(four), four, []resolver.Endpoint{together(four, six)}},
		{"A record of two families goes", together(other, six), six, []resolver.Endpoint{at(six)}},
		{"another A record of two families", together(other, six), six, []resolver.Endpoint{together(five, six)}},
	}
	for _, change := range changes {
		t.Run(change.name, func(t *testing.T) {
			bubbles(t, func(t *testing.T, w *world, name string) {
				nodes := make(map[string]*node)
				for _, addr := range []string{four, five, six} {
					nodes[addr] = w.start(addr)
				}
				c := w.client(name, `{"drainTimeout":"5s"}`)
				c.updateEndpoints(change.before)
				pass(time.Second)
				done := ended(c.holdOn(t.Context(), change.at))
				c.updateEndpoints(change.after...)
				pass(time.Hour)
				wantRunning(t, "to "+change.at, done)
				if got := nodes[change.at].accepted.Load(); got != 1 {
					t.Errorf("the server accepted %d connections, want 1", got)
				}
				for _, e := range change.after { // so that with least request the others are as busy
					if addr := e.Addresses[0].Addr; addr != change.at && len(change.after) > 1 && nodes[addr] != nil {
						c.holdOn(t.Context(), addr)
					}
				}
				if got := c.tally(200); got[change.at] == 0 {
					t.Errorf("got calls at %v, want some at %s", got, change.at)
				}
			})
		})
	}
}

func TestStreamsOfTwoEndpointsThatBecomeOneEndByThemselves(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll(four, five, six)
		c := w.client(name, `{"drainTimeout":"5s"}`)
		c.update(four, five, six)
		settle()
		onFour, onFive, onSix := ended(c.holdOn(t.Context(), four)), ended(c.holdOn(t.Context(), five)), ended(c.holdOn(t.Context(), six))
		begin := time.Now()
		c.updateEndpoints(together(four, six))
		if err := <-onFive; status.Code(err) != codes.Unavailable || time.Since(begin) != 5*time.Second {
			t.Errorf("removed address: got %v after %v, want Unavailable after 5s", err, time.Since(begin))
		}
		if got := c.tally(100); len(got) != 1 || got[five] > 0 {
			t.Errorf("got calls at %v, want one server that is in the set", got)
		}
		pass(time.Hour)
		wantRunning(t, "to "+four, onFour)
		wantRunning(t, "to "+six, onSix)

		c.update(four, five, six)
		settle()
		wantServers(t, c, four, five, six)
		wantRunning(t, "to "+four, onFour)
		wantRunning(t, "to "+six, onSix)
		if got := w.dialled(four) + w.dialled(six); got != 2 {
			t.Errorf("the addresses that stayed were dialled %d times, want 2", got)
		}

		c.updateEndpoints(together(four, six))
		pass(time.Minute)
		begin = time.Now()
		c.update(five)
		for _, done := range []<-chan error{onFour, onSix} {
			if err := <-done; status.Code(err) != codes.Unavailable || time.Since(begin) != 5*time.Second {
				t.Errorf("all replaced: got %v after %v, want Unavailable after 5s", err, time.Since(begin))
			}
		}
	})
}

func TestEndpointOfAnotherShapeIsDialledByItsOwnAddresses(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		v4 := w.start(four)
		w.start(six)
		c := w.client(name, "{}")
		c.update(four)
		wantServers(t, c, four)
		c.updateEndpoints(together(four, six))
		settle()
		if got := w.dialled(six); got != 0 {
			t.Errorf("the second address was dialled %d times beside a connection, want 0", got)
		}
		v4.stop()
		settle()
		wantServers(t, c, six)
	})
}

func TestDrainingConnectionIsTakenBackByAnotherShape(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll(four, five, six)
		c := w.client(name, `{"drainTimeout":"10s"}`)
		c.updateEndpoints(together(four, six))
		done := ended(c.holdOn(t.Context(), four))
		c.update(five)
		pass(5 * time.Second)
		wantServers(t, c, five)
		c.update(four, five)
		settle()
		c.holdOn(t.Context(), five) // so that the one is as busy as the other
		pass(time.Hour)
		wantServers(t, c, four, five)
		wantRunning(t, "to "+four, done)
		if got := w.dialled(four); got != 1 {
			t.Errorf("dialled %d times, want 1", got)
		}
	})
}

func TestChangesOfShapeAreToldAndAddUp(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.startAll(five, six)
		var told recorder
		counts := make(map[connectivity.State]int)
		c := w.clientWith(`{"loadBalancingConfig":[{"`+name+`":{}}]}`, &policy.Hooks{
			Endpoint: func(addr string, was, is connectivity.State, _ error) {
				told.note("%s %v", addr, is)
				counts[was]--
				counts[is]++
			},
		}, grpc.WithIdleTimeout(0))
		c.updateEndpoints(together(other, six)) // nothing answers at the first
		pass(time.Second)
		if got, want := told.take(), other+" CONNECTING, "+other+" READY"; got != want {
			t.Errorf("two addresses: got %q, want %q", got, want)
		}
		c.updateEndpoints(at(six))
		settle()
		if got, want := told.take(), other+" SHUTDOWN, "+six+" READY"; got != want {
			t.Errorf("the second alone: got %q, want %q", got, want)
		}
		c.updateEndpoints(at(five), at(six))
		settle()
		c.updateEndpoints(together(five, six))
		settle()
		for state, n := range counts {
			if want := map[connectivity.State]int{connectivity.Ready: 1, connectivity.Shutdown: -1}[state]; n != want {
				t.Errorf("counted %d endpoints as %v, want %d", n, state, want)
			}
		}
	})
}

// TestConnectionIsNotInheritedByAnotherName: the same address with another name to prove is another server.
func TestConnectionIsNotInheritedByAnotherName(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		n := w.start(four)
		c := w.client(name, `{"drainTimeout":"5s"}`)
		named := func(server string) resolver.Endpoint {
			e := together(four, six)
			for i := range e.Addresses {
				e.Addresses[i].ServerName = server
			}
			return e
		}
		c.updateEndpoints(named("a.test"))
		done := ended(c.holdOn(t.Context(), four))
		changed := named("b.test")
		changed.Addresses = changed.Addresses[:1]
		c.updateEndpoints(changed)
		if err := <-done; status.Code(err) != codes.Unavailable {
			t.Errorf("got %v, want the end of the drain", err)
		}
		if got := n.accepted.Load(); got != 2 {
			t.Errorf("got %d connections, want 2", got)
		}
	})
}

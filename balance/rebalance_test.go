// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

func named(host string, priority, weight uint16) discover.Endpoint {
	return discover.Endpoint{Host: host, Port: 1, Priority: priority, Weight: weight}
}

func TestOthers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	endpoints := []discover.Endpoint{named("a", 0, 1), named("b", 0, 2), named("a", 0, 9), named("c", 0, 3), named("z", 1, 4), named("y", 1, 5)}
	penalties := balance.NewPenalties()
	penalties.Fail("c:1", now)
	penalties.Fail("y:1", now)
	for name, tt := range map[string]struct {
		own       string
		penalties *balance.Penalties
		now       time.Time
		want      []string
		weight    uint16
	}{
		"those of the priority":                      {"a:1", nil, now, []string{"b", "c"}, 1},
		"without those that are penalised":           {"a:1", penalties, now, []string{"b"}, 1},
		"a penalty that has run out counts as none":  {"a:1", penalties, now.Add(31 * time.Second), []string{"b", "c"}, 1},
		"the own one's penalty does not matter":      {"y:1", penalties, now, []string{"z"}, 5},
		"the own one is not listed":                  {"x:1", nil, now, nil, 0},
		"a backup stays among the backups, as it is": {"z:1", nil, now, []string{"y"}, 4},
	} {
		others, own, ok := balance.Others(endpoints, tt.penalties, tt.own, tt.now)
		var got []string
		for _, e := range others {
			got = append(got, e.Host)
		}
		if !slices.Equal(got, tt.want) || own.Weight != tt.weight || ok != (tt.weight > 0) {
			t.Errorf("%s: others %v, own %+v, %t; want %v", name, got, own, ok, tt.want)
		}
	}
}

func TestRebalanceConfigValidate(t *testing.T) {
	t.Parallel()
	bad := balance.RebalanceConfig{Interval: time.Millisecond, Calm: -1, Rest: 25 * time.Hour, Timeout: time.Hour}
	for _, want := range []string{"interval of 1ms", "calm of -1ns", "rest of 25h", "timeout of 1h"} {
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	if err := (balance.RebalanceConfig{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	if _, err := balance.NewRebalancer(balance.RebalanceConfig{}); err == nil {
		t.Error("a rebalancer without a prober was made")
	}
	if _, err := balance.NewRebalancer(bad); err == nil {
		t.Error("a rebalancer was made of nonsense")
	}
}

// newRebalancer returns one that may move.
func newRebalancer(t *testing.T, prober balance.Prober) *balance.Rebalancer {
	t.Helper()
	r, err := balance.NewRebalancer(balance.RebalanceConfig{Prober: prober})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	r.Began()
	if wait := r.Wait(); wait < 0 || wait >= 30*time.Second {
		t.Errorf("the first look is due in %v, want some time of 30s", wait)
	}
	if r.Look() {
		t.Error("a look could lead to a move at once")
	}
	if wait := r.Wait(); wait < 22500*time.Millisecond || wait > 37500*time.Millisecond {
		t.Errorf("the next look is due in %v, want about 30s", wait)
	}
	time.Sleep(r.Wait() + 10*time.Second)
	if !r.Look() {
		t.Error("a look cannot lead to a move after all was calm")
	}
	return r
}

func TestRebalancerMovesAndReserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddrPort("192.0.2.7:1")
		p := &fakeProber{servers: map[string]server{"own": {count: 30}, "full": {count: 30}, "free": {count: 3, addr: addr}}}
		r := newRebalancer(t, p)
		own, others := named("own", 0, 0), []discover.Endpoint{named("full", 0, 0), named("free", 0, 0)}
		for looks := 1; ; looks++ {
			selection, ok, err := r.Select(t.Context(), own, others)
			if err != nil || looks > 100 {
				t.Fatalf("look %d: %v", looks, err)
			}
			probed, reserved := p.calls()
			if !ok {
				if len(reserved) > 0 {
					t.Errorf("reserved at %v and stayed", reserved)
				}
				time.Sleep(r.Wait())
				continue
			}
			if selection.Endpoint.Host != "free" || !slices.Equal(selection.Endpoint.Addrs, []netip.AddrPort{addr}) || !selection.Reservation.Made {
				t.Errorf("selected %+v, want the one with room, on the address that answered", selection)
			}
			if len(selection.Observations) != 3 || len(probed) != 7 || len(reserved) != 1 {
				t.Errorf("%d observations, %d counts and %d reservations, want 3, two looks and one more count, and 1", len(selection.Observations), len(probed), len(reserved))
			}
			return
		}
	})
}

func TestRebalancerEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{servers: map[string]server{"own": {silent: true}}}
		r := newRebalancer(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, ok, err := r.Select(ctx, named("own", 0, 0), []discover.Endpoint{named("other", 0, 0)})
		if ok || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
			t.Errorf("got %t, %v after %v", ok, err, time.Since(began))
		}
		if r.Troubled(); r.Look() {
			t.Error("a look can lead to a move right after trouble")
		}
	})
}

// A strategy gives back what it has reserved when it is told that the pick was of no use.
func TestLeastConnectionsReleases(t *testing.T) {
	t.Parallel()
	strategy, err := balance.NewLeastConnections(balance.LeastConnectionsConfig{Prober: &fakeProber{}})
	if err != nil {
		t.Fatal(err)
	}
	releaser, ok := strategy.(balance.Releaser)
	if !ok {
		t.Fatal("least-connections is no Releaser")
	}
	if err := releaser.Release(t.Context(), named("a", 0, 0), "x"); err != nil {
		t.Errorf("with a prober that cannot: %v", err)
	}
	prober := &releasing{}
	strategy, err = balance.NewLeastConnections(balance.LeastConnectionsConfig{Prober: prober})
	if err != nil {
		t.Fatal(err)
	}
	if err := strategy.(balance.Releaser).Release(t.Context(), named("a", 0, 0), "x"); err != nil || prober.id != "x" {
		t.Errorf("released %q, %v", prober.id, err)
	}
}

type releasing struct {
	fakeProber
	id string
}

func (r *releasing) Release(_ context.Context, _ discover.Endpoint, id string) error {
	r.id = id
	return nil
}

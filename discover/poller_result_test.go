// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

func TestPollerKeepsTheLastGoodSet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err       error
		want      error
		wantClass string
	}{
		"an error":          {errSource, errSource, "_OTHER"},
		"no such name":      {&discover.LookupError{Kind: discover.ErrNoSuchName}, discover.ErrNoSuchName, "no_such_name"},
		"no records":        {&discover.LookupError{Kind: discover.ErrNoRecords}, discover.ErrNoRecords, "no_records"},
		"a failed server":   {&discover.LookupError{Kind: discover.ErrServerFailed}, discover.ErrServerFailed, "server_failed"},
		"a timeout":         {&discover.LookupError{Kind: discover.ErrTimeout}, discover.ErrTimeout, "timeout"},
		"an empty answer":   {nil, discover.ErrNoRecords, "no_records"},
		"a cancelled query": {context.Canceled, context.Canceled, "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := func(_ context.Context, n int) ([]discover.Endpoint, error) {
				if n == 2 {
					return nil, test.err
				}
				return set("a", "b"), nil
			}
			poll(t, discover.PollerConfig{}, answer, func(p *polled) {
				p.after(5 * time.Second)
				got := p.told.last(t)
				if len(got.Endpoints) != 2 || !errors.Is(got.Err, test.want) || got.Class != test.wantClass {
					t.Errorf("got %v, %v, class %q; want both endpoints, %v, %q", got.Endpoints, got.Err, got.Class, test.want, test.wantClass)
				}
				if got.Changed || got.Kept != 2 || got.Added != 0 || got.Removed != 0 {
					t.Errorf("counted %+v, want two kept", got)
				}
				p.after(60 * time.Second)
				if got := p.told.last(t); got.Err != nil || got.Changed || got.Kept != 2 {
					t.Errorf("the same set after a failure is told as %+v", got)
				}
			})
		})
	}
}

func TestPollerCountsWhatHasChanged(t *testing.T) {
	t.Parallel()
	at := func(host string, addrs ...string) discover.Endpoint {
		e := discover.Endpoint{Host: host, Port: 1}
		for _, a := range addrs {
			e.Addrs = append(e.Addrs, netip.MustParseAddrPort(a))
		}
		return e
	}
	weighted := at("a")
	weighted.Weight = 7
	moved := at("a")
	moved.Port = 2
	for _, test := range []struct {
		name                 string
		before, after        []discover.Endpoint
		changed              bool
		added, removed, kept int
	}{
		{"the same", set("a", "b"), set("a", "b"), false, 0, 0, 2},
		{"another order", set("a", "b"), set("b", "a"), false, 0, 0, 2},
		{
			"another order of addresses",
			[]discover.Endpoint{at("a", "[::1]:1", "127.0.0.1:1")},
			[]discover.Endpoint{at("a", "127.0.0.1:1", "[::1]:1")},
			false, 0, 0, 1,
		},
		{"one more", set("a"), set("a", "b"), true, 1, 0, 1},
		{"one less", set("a", "b"), set("b"), true, 0, 1, 1},
		{"all others", set("a", "b"), set("c", "d"), true, 2, 2, 0},
		{"another port is another endpoint", set("a"), []discover.Endpoint{moved}, true, 1, 1, 0},
		{"another address is another endpoint", []discover.Endpoint{at("a", "127.0.0.1:1")}, []discover.Endpoint{at("a", "127.0.0.2:1")}, true, 1, 1, 0},
		{"another weight is the same endpoint", set("a"), []discover.Endpoint{weighted}, true, 0, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answer := func(_ context.Context, n int) ([]discover.Endpoint, error) {
				if n == 1 {
					return test.before, nil
				}
				return test.after, nil
			}
			poll(t, discover.PollerConfig{}, answer, func(p *polled) {
				if first := p.told.last(t); !first.Changed || first.Added != len(test.before) || first.Kept+first.Removed != 0 {
					t.Errorf("the first set is told as %+v", first)
				}
				p.after(5 * time.Second)
				got := p.told.last(t)
				if got.Changed != test.changed || got.Added != test.added || got.Removed != test.removed || got.Kept != test.kept {
					t.Errorf("changed %v, +%d -%d =%d; want %v, +%d -%d =%d",
						got.Changed, got.Added, got.Removed, got.Kept, test.changed, test.added, test.removed, test.kept)
				}
			})
		})
	}
}

func TestPollerGivesItsEndpointsAway(t *testing.T) {
	t.Parallel()
	given := set("a")
	given[0].Addrs = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}
	answer := func(_ context.Context, n int) ([]discover.Endpoint, error) {
		if n > 1 {
			return nil, errSource
		}
		return given, nil
	}
	poll(t, discover.PollerConfig{}, answer, func(p *polled) {
		got := p.told.last(t).Endpoints
		got[0].Addrs[0], given[0].Addrs[0] = netip.AddrPort{}, netip.AddrPort{}
		p.after(5 * time.Second)
		if kept := p.told.last(t).Endpoints[0]; !kept.Addrs[0].IsValid() {
			t.Error("the kept set was changed by whoever had been given it")
		}
	})
}

func TestPollerTakesFiveThousandEndpoints(t *testing.T) {
	t.Parallel()
	hosts := make([]string, 5000)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("h%d", i)
	}
	answer := func(_ context.Context, n int) ([]discover.Endpoint, error) {
		shuffled := slices.Clone(hosts)
		rand.New(rand.NewPCG(1, uint64(n))).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		return set(shuffled[min(1, n-1)*10:]...), nil
	}
	poll(t, discover.PollerConfig{}, answer, func(p *polled) {
		p.after(5 * time.Second)
		if got := p.told.last(t); got.Kept != 4990 || got.Removed != 10 || got.Added != 0 || !got.Changed || len(got.Endpoints) != 4990 {
			t.Errorf("+%d -%d =%d, want -10 =4990", got.Added, got.Removed, got.Kept)
		}
	})
}

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{&discover.LookupError{Kind: discover.ErrNoSuchName}, "no_such_name"},
		{&discover.StaleError{Cause: &discover.LookupError{Kind: discover.ErrTimeout}}, "timeout"},
		{&discover.PartialError{}, "partial"},
		{discover.ErrClosed, "closed"},
		{context.DeadlineExceeded, "timeout"},
		{context.Canceled, "canceled"},
		{&discover.PanicError{}, "panic"},
		{errSource, "_OTHER"},
	} {
		if got := discover.ErrorClass(test.err); got != test.want {
			t.Errorf("class of %v is %q, want %q", test.err, got, test.want)
		}
	}
}

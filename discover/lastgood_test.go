// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// resolverFunc is a user's own resolver.
type resolverFunc func(ctx context.Context) ([]discover.Endpoint, error)

func (f resolverFunc) Resolve(ctx context.Context) ([]discover.Endpoint, error) { return f(ctx) }

func node(host string) []discover.Endpoint {
	return []discover.Endpoint{{Host: host, Port: 1, Addrs: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:1")}}}
}

func TestLastGoodFallsBackOnTheFourFailures(t *testing.T) {
	t.Parallel()
	plain := errors.New("something else")
	partial := &discover.PartialError{Dropped: 1}
	kind := func(kind error) error { return &discover.LookupError{Kind: kind} }
	tests := []struct {
		name  string
		err   error
		stale bool
	}{
		{"no such name", kind(discover.ErrNoSuchName), true},
		{"no records", kind(discover.ErrNoRecords), true},
		{"no records for they are malformed", &discover.LookupError{Kind: discover.ErrNoRecords, Err: partial}, true},
		{"server failed", kind(discover.ErrServerFailed), true},
		{"timed out", kind(discover.ErrTimeout), true},
		{"wrapped by a user's resolver", fmt.Errorf("mine: %w", kind(discover.ErrTimeout)), true},
		{"neither endpoints nor error", nil, true},
		{"cancelled", &discover.LookupError{Err: context.Canceled}, false},
		{"something else", plain, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			answers := []func() ([]discover.Endpoint, error){
				func() ([]discover.Endpoint, error) { return node("old"), nil },
				func() ([]discover.Endpoint, error) { return node("good"), partial },
				func() ([]discover.Endpoint, error) { return nil, tt.err },
			}
			resolver := discover.LastGood(resolverFunc(func(context.Context) ([]discover.Endpoint, error) {
				answer := answers[0]
				answers = answers[1:]
				return answer()
			}))
			before := time.Now()
			_, _ = resolver.Resolve(t.Context())
			if endpoints, err := resolver.Resolve(t.Context()); !errors.Is(err, partial) || len(endpoints) != 1 {
				t.Errorf("partial answer: got %v, %v; want it as it is", endpoints, err)
			} else {
				endpoints[0].Addrs[0] = netip.AddrPort{} // the caller's to change
			}
			endpoints, err := resolver.Resolve(t.Context())
			stale, ok := errors.AsType[*discover.StaleError](err)
			if ok != tt.stale || tt.err != nil && !errors.Is(err, tt.err) {
				t.Fatalf("got error %v, want %v and stale %v", err, tt.err, tt.stale)
			}
			var want []discover.Endpoint
			if tt.stale {
				want = node("good")
				if stale.At.Before(before) || stale.At.After(time.Now()) || !strings.Contains(err.Error(), stale.Cause.Error()) {
					t.Errorf("got %v of %v, want the time of the good lookup and the cause", err, stale.At)
				}
			}
			if diff := cmp.Diff(lines(want), lines(endpoints)); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLastGoodWithNothingKept(t *testing.T) {
	t.Parallel()
	failed := &discover.LookupError{Kind: discover.ErrTimeout}
	resolver := discover.LastGood(resolverFunc(func(context.Context) ([]discover.Endpoint, error) { return nil, failed }))
	endpoints, err := resolver.Resolve(t.Context())
	if err != error(failed) || len(endpoints) > 0 { //nolint:errorlint // unchanged is meant
		t.Errorf("got %v, %v; want the failure as it is", endpoints, err)
	}
	empty := discover.LastGood(resolverFunc(func(context.Context) ([]discover.Endpoint, error) { return nil, nil }))
	if _, err := empty.Resolve(t.Context()); !errors.Is(err, discover.ErrNoRecords) {
		t.Errorf("neither endpoints nor error: got %v, want ErrNoRecords", err)
	}
}

func TestLastGoodDoesNotKeepStaleEndpoints(t *testing.T) {
	t.Parallel()
	failed := &discover.LookupError{Kind: discover.ErrTimeout}
	good := true
	inner := discover.LastGood(resolverFunc(func(context.Context) ([]discover.Endpoint, error) {
		if good {
			return node("good"), nil
		}
		return nil, failed
	}))
	if _, err := inner.Resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	good = false
	stale := true
	outer := discover.LastGood(resolverFunc(func(ctx context.Context) ([]discover.Endpoint, error) {
		if stale {
			return inner.Resolve(ctx)
		}
		return nil, failed
	}))
	if endpoints, _ := outer.Resolve(t.Context()); len(endpoints) != 1 {
		t.Errorf("got %v, want the endpoint of the inner one", endpoints)
	}
	stale = false
	if endpoints, err := outer.Resolve(t.Context()); len(endpoints) > 0 {
		t.Errorf("got %v, %v; want nothing, since no lookup of the outer one was good", endpoints, err)
	}
}

// Two lookups at once: the one that began first ends last and must not put its older answer over the newer one.
func TestLastGoodKeepsTheNewerOfTwoAnswers(t *testing.T) {
	t.Parallel()
	slowBegan, letSlowEnd := make(chan struct{}), make(chan struct{})
	answers := make(chan func() ([]discover.Endpoint, error), 3)
	answers <- func() ([]discover.Endpoint, error) {
		close(slowBegan)
		<-letSlowEnd
		return node("older"), nil
	}
	answers <- func() ([]discover.Endpoint, error) { return node("newer"), nil }
	answers <- func() ([]discover.Endpoint, error) {
		return nil, &discover.LookupError{Kind: discover.ErrServerFailed}
	}
	resolver := discover.LastGood(resolverFunc(func(context.Context) ([]discover.Endpoint, error) { return (<-answers)() }))
	var group sync.WaitGroup
	group.Go(func() { _, _ = resolver.Resolve(t.Context()) })
	<-slowBegan
	_, _ = resolver.Resolve(t.Context())
	close(letSlowEnd)
	group.Wait()
	endpoints, _ := resolver.Resolve(t.Context())
	if len(endpoints) != 1 || endpoints[0].Host != "newer" {
		t.Errorf("got %v, want the endpoints of the lookup that began last", endpoints)
	}
}

func TestLastGoodOverSRV(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		dns.SetSRV(owner, evenkeeltest.SRV{Target: "a.test", Port: 1})
		resolver = discover.LastGood(resolver)
		if _, err := resolver.Resolve(lateContext(t)); err != nil {
			t.Fatal(err)
		}
		for code, kind := range map[string]error{"NXDOMAIN": discover.ErrNoSuchName, "NOERROR": discover.ErrNoRecords, "SERVFAIL": discover.ErrServerFailed} {
			setFault(t, dns, owner, "", evenkeeltest.DNSFault{Code: code})
			endpoints, err := resolver.Resolve(lateContext(t))
			if diff := cmp.Diff([]string{"0 0 a.test:1"}, lines(endpoints)); diff != "" || !errors.Is(err, kind) {
				t.Errorf("%s: err %v, endpoints (-want +got):\n%s", code, err, diff)
			}
			if _, stale := errors.AsType[*discover.StaleError](err); !stale {
				t.Errorf("%s: got %T, want a *StaleError", code, err)
			}
		}
		dns.ClearFault(owner, "")
		dns.SetSRV(owner, evenkeeltest.SRV{Target: "b.test", Port: 1})
		endpoints, err := resolver.Resolve(lateContext(t))
		if diff := cmp.Diff([]string{"0 0 b.test:1"}, lines(endpoints)); diff != "" || err != nil {
			t.Errorf("after the fault: err %v, endpoints (-want +got):\n%s", err, diff)
		}
	})
}

func TestStaticGivesWhatItWasGiven(t *testing.T) {
	t.Parallel()
	given := []discover.Endpoint{
		{Host: "b.test", Port: 2, Priority: 9, Addrs: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:2")}},
		{Host: "a.test.", Port: 1},
		{Host: "b.test", Port: 2},
	}
	resolver := discover.Static(given...)
	given[0].Host, given[0].Addrs[0] = "changed", netip.AddrPort{}
	want := []string{"9 0 b.test:2 [10.0.0.1:2]", "0 0 a.test:1", "0 0 b.test:2"}
	for range 2 {
		endpoints, err := resolver.Resolve(t.Context())
		if diff := cmp.Diff(want, lines(endpoints)); diff != "" || err != nil {
			t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
		}
		if endpoints[0].Absolute || endpoints[1].LookupName() != "a.test." {
			t.Errorf("absolute: got %v and %q, want only the host with a final dot", endpoints[0].Absolute, endpoints[1].LookupName())
		}
		endpoints[0].Host, endpoints[0].Addrs[0] = "changed", netip.AddrPort{} // the caller's to change
	}
}

func TestStaticErrors(t *testing.T) {
	t.Parallel()
	if _, err := discover.Static().Resolve(t.Context()); err == nil {
		t.Error("without endpoints: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := discover.Static(node("a")...).Resolve(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: got %v, want context.Canceled", err)
	}
}

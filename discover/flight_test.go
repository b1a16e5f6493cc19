// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// gated makes a name server hold its answers for a name back.
func gated(t *testing.T, dns *evenkeeltest.DNS, name string) (open func()) {
	t.Helper()
	gate := make(chan struct{})
	setFault(t, dns, name, "", evenkeeltest.DNSFault{Gate: gate})
	open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	return open
}

// shared are resolvers that ask one question, with the type of its first query.
func sharing(t *testing.T, dns *evenkeeltest.DNS, system bool) map[string]func() discover.Resolver {
	t.Helper()
	server := dns.Addr()
	if system {
		server = ""
	}
	group := discover.NewFlightsForTest()
	prepare := func(r discover.Resolver) discover.Resolver {
		if system {
			t.Cleanup(discover.RedirectSystemForTest(r, dns.Addr()))
			discover.ShareFlightsForTest(r, group)
		}
		return r
	}
	return map[string]func() discover.Resolver{
		"SRV": func() discover.Resolver {
			return prepare(newSRV(t, discover.SRVConfig{Name: name, NameServer: server}))
		},
		"A": func() discover.Resolver {
			return prepare(newDNS(t, discover.DNSConfig{Name: name + ".", NameServer: server}))
		},
	}
}

func TestLookupsUnderWayAreShared(t *testing.T) {
	t.Parallel()
	for _, system := range []bool{false, true} {
		for _, kind := range []string{"SRV", "A"} {
			t.Run(fmt.Sprintf("%s, system %v", kind, system), func(t *testing.T) {
				t.Parallel()
				dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
				dns.SetSRV(owner, evenkeeltest.SRV{Target: "a.test", Port: 1})
				dns.SetAddrs(name, addr("127.0.0.1"), addr("127.0.0.2"))
				query := map[string]string{"SRV": owner, "A": name}[kind]
				open := gated(t, dns, query)
				newResolver := sharing(t, dns, system)[kind]

				const callers = 30
				type result struct {
					endpoints []discover.Endpoint
					err       error
				}
				results := make(chan result, callers)
				look := func(r discover.Resolver) {
					endpoints, err := r.Resolve(lateContext(t))
					results <- result{endpoints, err}
				}
				go look(newResolver())
				if err := dns.Wait(lateContext(t), query, kind, 1); err != nil {
					t.Fatal(err)
				}
				joined := make(chan struct{}, callers)
				for range callers - 1 {
					resolver := newResolver()
					go func() {
						joined <- struct{}{}
						look(resolver)
					}()
				}
				for range callers - 1 {
					<-joined
				}
				discover.AwaitWaitersForTest(lateContext(t), newResolver(), callers)
				open()
				for range callers {
					r := <-results
					if r.err != nil || len(r.endpoints) == 0 {
						t.Fatalf("got %v, %v", r.endpoints, r.err)
					}
					for i := range r.endpoints { // what is shared must not be what is given
						r.endpoints[i].Host = ""
						if len(r.endpoints[i].Addrs) > 0 {
							r.endpoints[i].Addrs[0] = netip.AddrPort{}
						}
					}
				}
				if got := dns.Count(query, kind); got > 2 { // one may be sent again when the machine is slow
					t.Errorf("asked %d times, want once", got)
				}
				before := dns.Count(query, kind)
				if _, err := newResolver().Resolve(lateContext(t)); err != nil {
					t.Error(err)
				}
				if got := dns.Count(query, kind); got == before {
					t.Error("a later lookup got an old answer")
				}
			})
		}
	}
}

func TestOneWhoLeavesDoesNotEndTheLookupOfOthers(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs(name, addr("127.0.0.1"))
	open := gated(t, dns, name)
	resolver := newDNS(t, discover.DNSConfig{Name: name, NameServer: dns.Addr()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, second := make(chan error, 1), make(chan error, 1)
	look := func(ctx context.Context, results chan<- error) {
		_, err := resolver.Resolve(ctx)
		results <- err
	}
	go look(ctx, first)
	if err := dns.Wait(lateContext(t), name, "A", 1); err != nil {
		t.Fatal(err)
	}
	go look(lateContext(t), second)
	discover.AwaitWaitersForTest(lateContext(t), resolver, 2)
	began := time.Now()
	cancel()
	err := <-first
	if took := time.Since(began); !errors.Is(err, context.Canceled) || took > 100*time.Millisecond {
		t.Errorf("who left got %v after %v", err, took)
	}
	if failed, ok := errors.AsType[*discover.LookupError](err); !ok || failed.Server != dns.Addr() {
		t.Errorf("the error does not name the server: %v", err)
	}
	open()
	if err := <-second; err != nil {
		t.Errorf("who stayed got %v", err)
	}
}

// Who began the lookup had less time than who joined it.
func TestALookupThatWasCutShortIsMadeAgain(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs(name, addr("127.0.0.1"))
	open := gated(t, dns, name)
	resolver := newDNS(t, discover.DNSConfig{Name: name, NameServer: dns.Addr(), Timeout: late})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := resolver.Resolve(ctx)
		first <- err
	}()
	discover.AwaitWaitersForTest(lateContext(t), resolver, 1)
	go func() {
		_, err := resolver.Resolve(lateContext(t))
		second <- err
	}()
	discover.AwaitWaitersForTest(lateContext(t), resolver, 2)
	if err := <-first; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, discover.ErrTimeout) {
		t.Errorf("who began got %v", err)
	}
	open()
	if err := <-second; err != nil {
		t.Errorf("who joined got %v", err)
	}
}

func TestOtherQuestionsAreNotShared(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	other := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	for _, d := range []*evenkeeltest.DNS{dns, other} {
		d.SetAddrs(name, addr("127.0.0.1"))
		d.SetAddrs("y.test", addr("127.0.0.1"))
	}
	open := gated(t, dns, name)
	held := newDNS(t, discover.DNSConfig{Name: name, NameServer: dns.Addr()})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = held.Resolve(lateContext(t)) // only there to be under way
	}()
	discover.AwaitWaitersForTest(lateContext(t), held, 1)
	for _, config := range []discover.DNSConfig{
		{Name: name, NameServer: other.Addr()}, {Name: "y.test", NameServer: dns.Addr()},
	} {
		if _, err := newDNS(t, config).Resolve(lateContext(t)); err != nil {
			t.Errorf("%+v: %v", config, err)
		}
	}
	open()
	<-done
}

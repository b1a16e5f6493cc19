// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// follower is a poller of a name on a real name server, and what it tells.
type follower struct {
	*testing.T
	*discover.Poller

	dns     *evenkeeltest.DNS
	results chan discover.PollResult
}

// often makes a poller look so often that a test need not wait.
var often = discover.PollerConfig{Interval: 20 * time.Millisecond, MinInterval: discover.LeastInterval, MaxInterval: 100 * time.Millisecond}

// never makes it look only when it is hinted.
var never = discover.PollerConfig{Interval: time.Hour, MinInterval: discover.LeastInterval}

func follow(t *testing.T, dns *evenkeeltest.DNS, config discover.PollerConfig, resolver discover.Resolver) *follower {
	t.Helper()
	f := &follower{T: t, dns: dns, results: make(chan discover.PollResult, 10_000)}
	config.Resolver, config.OnResult = resolver, func(r discover.PollResult) { f.results <- r }
	var err error
	if f.Poller, err = discover.NewPoller(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// followName follows the addresses of x.test.
func followName(t *testing.T, config discover.PollerConfig, addrs ...string) *follower {
	t.Helper()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	setAddrs(dns, addrs...)
	resolver := newDNS(t, discover.DNSConfig{Name: name, Port: 7, NameServer: dns.Addr(), Timeout: 300 * time.Millisecond})
	return follow(t, dns, config, resolver)
}

func setAddrs(dns *evenkeeltest.DNS, addrs ...string) {
	var all []netip.Addr
	for _, a := range addrs {
		all = append(all, addr(a))
	}
	dns.SetAddrs(name, all...)
}

// until returns the first result that holds.
func (f *follower) until(what string, holds func(r discover.PollResult) bool) discover.PollResult {
	f.Helper()
	ctx := lateContext(f.T)
	var last discover.PollResult
	for {
		select {
		case last = <-f.results:
			if holds(last) {
				return last
			}
		case <-ctx.Done():
			f.Fatalf("waiting for %s; the last result is %+v", what, last)
		}
	}
}

func hostsOf(r discover.PollResult) string {
	var hosts []string
	for _, e := range r.Endpoints {
		hosts = append(hosts, e.Host)
	}
	slices.Sort(hosts)
	return strings.Join(hosts, " ")
}

func serves(hosts string) func(discover.PollResult) bool {
	return func(r discover.PollResult) bool { return r.Err == nil && hostsOf(r) == hosts }
}

// Scenarios 1 and 2: nothing breaks, and the new servers are found.
func TestPollerFindsServersThatWereAdded(t *testing.T) {
	t.Parallel()
	f := followName(t, often, "127.0.0.1", "127.0.0.2")
	f.until("two servers", serves("127.0.0.1 127.0.0.2"))
	setAddrs(f.dns, "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
	r := f.until("four servers", serves("127.0.0.1 127.0.0.2 127.0.0.3 127.0.0.4"))
	if r.Added != 2 || r.Removed != 0 || r.Kept != 2 || !r.Changed {
		t.Errorf("counted +%d -%d =%d, want +2 =2", r.Added, r.Removed, r.Kept)
	}
	// Scenario 22: all are replaced.
	setAddrs(f.dns, "127.0.0.8", "127.0.0.9")
	r = f.until("two others", serves("127.0.0.8 127.0.0.9"))
	if r.Added != 2 || r.Removed != 4 || r.Kept != 0 {
		t.Errorf("counted +%d -%d =%d, want +2 -4", r.Added, r.Removed, r.Kept)
	}
	// Scenario 17: nobody has asked for TXT records.
	for _, q := range f.dns.Queries() {
		if q.Type != "A" && q.Type != "AAAA" {
			t.Errorf("asked for %s %s", q.Type, q.Name)
		}
	}
}

// Scenario 5: behind the floor a hint is served at once, not at the next tick.
func TestPollerServesAHintAtOnce(t *testing.T) {
	t.Parallel()
	f := followName(t, never, "127.0.0.1")
	f.until("the first set", serves("127.0.0.1"))
	setAddrs(f.dns, "127.0.0.2")
	f.ResolveNow()
	f.until("what the hint brought", serves("127.0.0.2"))
}

// Scenarios 6 to 9: whatever a name server says or does not say, what served goes on to serve, and when it comes back so
// do we.
func TestPollerOutlivesANameServersTroubles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault evenkeeltest.DNSFault
		class string
	}{
		"no such name":    {evenkeeltest.DNSFault{Code: "NXDOMAIN"}, discover.ClassNoSuchName},
		"an empty answer": {evenkeeltest.DNSFault{Code: "NOERROR"}, discover.ClassNoRecords},
		"SERVFAIL":        {evenkeeltest.DNSFault{Code: "SERVFAIL"}, discover.ClassServerFailed},
		"REFUSED":         {evenkeeltest.DNSFault{Code: "REFUSED"}, discover.ClassServerFailed},
		"silence":         {evenkeeltest.DNSFault{Silent: true}, discover.ClassTimeout},
		"garbage": {evenkeeltest.DNSFault{Raw: func(q evenkeeltest.DNSQuery) [][]byte {
			return [][]byte{append(slices.Clone(q.Packed[:2]), 0x84, 0, 0, 1, 0xff)}
		}}, discover.ClassServerFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := followName(t, often, "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
			const all = "127.0.0.1 127.0.0.2 127.0.0.3 127.0.0.4"
			f.until("four servers", serves(all))
			setFault(t, f.dns, "", "", test.fault)
			for range 3 {
				r := f.until("a failure", func(r discover.PollResult) bool { return r.Err != nil })
				if r.Class != test.class || hostsOf(r) != all || r.Changed || r.Removed > 0 || r.Kept != 4 {
					t.Fatalf("told class %q, %s, changed %v, -%d =%d", r.Class, hostsOf(r), r.Changed, r.Removed, r.Kept)
				}
			}
			f.SetUsable(false) // now they are gone as well
			setAddrs(f.dns, "127.0.0.9")
			f.dns.ClearFaults()
			r := f.until("the new server", serves("127.0.0.9"))
			if r.Failures != 0 || r.Removed != 4 || r.Added != 1 {
				t.Errorf("told %+v", r)
			}
		})
	}
}

// Scenario 21: the first lookup fails. It is repeated at once in terms of an interval.
func TestPollerRepeatsTheFirstLookup(t *testing.T) {
	t.Parallel()
	f := followName(t, discover.PollerConfig{Interval: time.Hour})
	first := f.until("a failure", func(r discover.PollResult) bool { return r.Class == discover.ClassNoSuchName })
	if wait := first.Next.Sub(first.At); len(first.Endpoints) > 0 || wait > 2*time.Second {
		t.Errorf("the next lookup is %v later, and %d endpoints serve", wait, len(first.Endpoints))
	}
	setAddrs(f.dns, "127.0.0.1")
	f.until("the first set", serves("127.0.0.1"))
}

// Scenario 12: the SRV records are there and the addresses of a target are not, for a moment.
func TestPollerKeepsTheAddressesOfATarget(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetSRV(owner, evenkeeltest.SRV{Target: "a.test", Port: 1}, evenkeeltest.SRV{Target: "b.test", Port: 2})
	dns.SetAddrs("a.test", addr("127.0.0.1"))
	dns.SetAddrs("b.test", addr("127.0.0.2"))
	f := follow(t, dns, never, newSRV(t, discover.SRVConfig{Name: name, NameServer: dns.Addr()}))
	want := []string{"0 0 a.test:1 [127.0.0.1:1]", "0 0 b.test:2 [127.0.0.2:2]"}
	f.until("two servers", func(r discover.PollResult) bool { return slices.Equal(lines(r.Endpoints), want) })
	dns.Remove("a.test")
	f.ResolveNow()
	r := f.until("the next lookup", func(discover.PollResult) bool { return true })
	if !slices.Equal(lines(r.Endpoints), want) || r.Changed || r.Kept != 2 {
		t.Errorf("got %v, changed %v, =%d; want both as they were", lines(r.Endpoints), r.Changed, r.Kept)
	}
	dns.SetAddrs("a.test", addr("127.0.0.3"))
	f.ResolveNow()
	r = f.until("the next lookup", func(discover.PollResult) bool { return true })
	if !r.Changed || r.Added != 1 || r.Removed != 1 || r.Kept != 1 {
		t.Errorf("a target that moved is counted as +%d -%d =%d", r.Added, r.Removed, r.Kept)
	}
}

// Scenario 14: one of three targets cannot be resolved.
func TestATargetWithoutAddressesDoesNotHarmTheOthers(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	var records []evenkeeltest.SRV
	for i := range 3 {
		target := fmt.Sprintf("n%d.test", i)
		records = append(records, evenkeeltest.SRV{Target: target, Port: uint16(i + 1)})
		if i > 0 {
			dns.SetAddrs(target, netip.AddrFrom4([4]byte{127, 0, 0, byte(i)}))
		}
	}
	dns.SetSRV(owner, records...)
	f := follow(t, dns, never, newSRV(t, discover.SRVConfig{Name: name, NameServer: dns.Addr()}))
	r := f.until("the first set", func(discover.PollResult) bool { return true })
	want := []string{"0 0 n0.test:1", "0 0 n1.test:2 [127.0.0.1:2]", "0 0 n2.test:3 [127.0.0.2:3]"}
	if !slices.Equal(lines(r.Endpoints), want) {
		t.Errorf("got %v, want %v", lines(r.Endpoints), want)
	}
}

// A hung name server holds up neither Close nor another lookup.
func TestPollerCloseWithASilentNameServer(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	setFault(t, dns, "", "", evenkeeltest.DNSFault{Silent: true})
	f := follow(t, dns, never, newDNS(t, discover.DNSConfig{Name: name, NameServer: dns.Addr()}))
	if err := dns.Wait(lateContext(t), name, "A", 1); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	f.Close()
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("closing took %v, want 100 ms at most", took)
	}
	select {
	case r := <-f.results:
		t.Errorf("told of its own end: %+v", r)
	default:
	}
}

// Five thousand endpoints over TCP, as a source may return.
func TestPollerTakesALargeAnswer(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	var addrs []netip.Addr
	for i := range 3900 { // all that fits into a message of 64 KiB
		addrs = append(addrs, netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)}))
	}
	dns.SetAddrs(name, addrs...)
	f := follow(t, dns, never, newDNS(t, discover.DNSConfig{Name: name, NameServer: dns.Addr()}))
	r := f.until("an answer", func(discover.PollResult) bool { return true })
	if r.Err != nil || len(r.Endpoints) != len(addrs) {
		t.Errorf("got %d endpoints, %v; want %d", len(r.Endpoints), r.Err, len(addrs))
	}
}

// The poller's context reaches the source.
func TestPollerLimitsALookup(t *testing.T) {
	t.Parallel()
	limits := make(chan time.Duration, 1)
	source := &scripted{answer: func(ctx context.Context, _ int) ([]discover.Endpoint, error) {
		deadline, _ := ctx.Deadline()
		limits <- time.Until(deadline)
		return nil, errors.New("once is enough")
	}}
	p, err := discover.NewPoller(discover.PollerConfig{Resolver: source, Timeout: time.Minute, OnResult: func(discover.PollResult) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := <-limits; got > time.Minute || got < 30*time.Second {
		t.Errorf("a lookup may take %v, want the timeout of a minute", got)
	}
}

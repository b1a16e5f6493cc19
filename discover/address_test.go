// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

func TestSRVAddressesOfTargets(t *testing.T) {
	t.Parallel()
	dual := func(dns *evenkeeltest.DNS) {
		dns.SetAddrs("a.test", addr("10.0.0.1"), addr("10.0.0.2"), addr("2001:db8::1"))
	}
	tests := []struct {
		name    string
		prepare func(*testing.T, *evenkeeltest.DNS)
		want    string
	}{
		{"both families, IPv6 first", func(_ *testing.T, dns *evenkeeltest.DNS) { dual(dns) }, " [[2001:db8::1]:7 10.0.0.1:7 10.0.0.2:7]"},
		{"IPv4 only", func(_ *testing.T, dns *evenkeeltest.DNS) { dns.SetAddrs("a.test", addr("10.0.0.1")) }, " [10.0.0.1:7]"},
		{"none there", func(*testing.T, *evenkeeltest.DNS) {}, ""},
		{"an alias", func(_ *testing.T, dns *evenkeeltest.DNS) {
			dns.SetCNAME("a.test", "b.test")
			dns.SetAddrs("b.test", addr("10.0.0.9"))
		}, " [10.0.0.9:7]"},
		{"an alias that leads elsewhere", func(_ *testing.T, dns *evenkeeltest.DNS) { dns.SetCNAME("a.test", "b.invalid") }, ""},
		{"foreign addresses", func(t *testing.T, dns *evenkeeltest.DNS) {
			t.Helper()
			dns.SetAddrs("a.test", addr("10.0.0.1"))
			setFault(t, dns, "a.test", "", evenkeeltest.DNSFault{Extra: []string{"b.test. A 10.6.6.6", "b.test. AAAA 2001:db8::6"}})
		}, " [10.0.0.1:7]"},
		{"addresses that are no server's, and duplicates", func(t *testing.T, dns *evenkeeltest.DNS) {
			t.Helper()
			dns.SetAddrs("a.test", addr("0.0.0.0"), addr("::"), addr("224.0.0.1"), addr("10.0.0.1"), addr("::ffff:10.0.0.2"))
			setFault(t, dns, "a.test", "A", evenkeeltest.DNSFault{Extra: []string{"a.test. A 10.0.0.1"}})
		}, " [10.0.0.2:7 10.0.0.1:7]"},
		{"one family fails", func(t *testing.T, dns *evenkeeltest.DNS) {
			t.Helper()
			dual(dns)
			setFault(t, dns, "a.test", "AAAA", evenkeeltest.DNSFault{Code: "SERVFAIL"})
		}, " [10.0.0.1:7 10.0.0.2:7]"},
		{"the server refuses", func(t *testing.T, dns *evenkeeltest.DNS) {
			t.Helper()
			dual(dns)
			setFault(t, dns, "a.test", "", evenkeeltest.DNSFault{Code: "REFUSED"})
		}, ""},
		{"malformed address", func(t *testing.T, dns *evenkeeltest.DNS) {
			t.Helper()
			setFault(t, dns, "a.test", "A", evenkeeltest.DNSFault{Raw: func(q evenkeeltest.DNSQuery) [][]byte {
				return [][]byte{rawReply(q.Packed, rawRecord(1, []byte{10, 0, 0}), rawRecord(1, []byte{10, 0, 0, 5}))}
			}})
		}, " [10.0.0.5:7]"},
		{"truncated, then over TCP", func(t *testing.T, dns *evenkeeltest.DNS) {
			t.Helper()
			dual(dns)
			setFault(t, dns, "a.test", "", evenkeeltest.DNSFault{Truncate: true})
		}, " [[2001:db8::1]:7 10.0.0.1:7 10.0.0.2:7]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
			dns.SetSRV(owner, evenkeeltest.SRV{Target: "a.test", Port: 7})
			tt.prepare(t, dns)
			resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: dns.Addr()})
			endpoints, err := resolver.Resolve(lateContext(t))
			if diff := cmp.Diff([]string{"0 0 a.test:7" + tt.want}, lines(endpoints)); diff != "" || err != nil {
				t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestSRVAddressesAreAskedOncePerHost(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs("a.test", addr("10.0.0.1"))
	dns.SetSRV(owner, evenkeeltest.SRV{Target: "a.test", Port: 7}, evenkeeltest.SRV{Target: "a.test", Port: 8})
	resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: dns.Addr()})
	endpoints, err := resolver.Resolve(lateContext(t))
	want := []string{"0 0 a.test:7 [10.0.0.1:7]", "0 0 a.test:8 [10.0.0.1:8]"}
	if diff := cmp.Diff(want, lines(endpoints)); diff != "" || err != nil {
		t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
	}
	// The name is absolute, so there is no question for it in a search domain either.
	if got := len(dns.Queries()); got != 3 || dns.Count("a.test", "A") != 1 || dns.Count("a.test", "AAAA") != 1 {
		t.Errorf("got %d questions, want SRV, A and AAAA", got)
	}
}

func TestSRVAddressesOfManyTargets(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	var records []evenkeeltest.SRV
	var want []string
	for i := range 100 {
		host := fmt.Sprintf("node%03d.test", i)
		records = append(records, evenkeeltest.SRV{Target: host, Port: 7})
		dns.SetAddrs(host, addr(fmt.Sprintf("10.0.0.%d", i)))
		want = append(want, fmt.Sprintf("0 0 %s:7 [10.0.0.%d:7]", host, i))
	}
	dns.SetSRV(owner, records...)
	resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: dns.Addr()})
	// This is not about time, and the machine may be busy.
	t.Cleanup(discover.SetLimitsForTest(resolver, discover.LimitsForTest{Lookup: late, Addresses: late}))
	endpoints, err := resolver.Resolve(lateContext(t))
	if diff := cmp.Diff(want, lines(endpoints)); diff != "" || err != nil {
		t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
	}
}

func TestSRVAddressesThatDoNotComeInTime(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetSRV(owner, evenkeeltest.SRV{Target: "silent.test", Port: 7}, evenkeeltest.SRV{Target: "a.test", Port: 7})
	dns.SetAddrs("a.test", addr("10.0.0.1"))
	setFault(t, dns, "silent.test", "", evenkeeltest.DNSFault{Silent: true})
	resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: dns.Addr()})
	began := time.Now()
	endpoints, err := resolver.Resolve(lateContext(t))
	if took := time.Since(began); took < time.Second || took > 4*time.Second {
		t.Errorf("took %v, want 2 s: the SRV lookup has 5 s, its addresses must not use them up", took)
	}
	if diff := cmp.Diff([]string{"0 0 a.test:7 [10.0.0.1:7]", "0 0 silent.test:7"}, lines(endpoints)); diff != "" || err != nil {
		t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
	}
}

func TestSRVContextEndsWhileAddressesAreAsked(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*evenkeeltest.DNS, discover.Resolver) {
		t.Helper()
		dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
		dns.SetSRV(owner, evenkeeltest.SRV{Target: "silent.test", Port: 7})
		setFault(t, dns, "silent.test", "", evenkeeltest.DNSFault{Silent: true})
		resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: dns.Addr()})
		// Long limits, so that only the context can end the lookup.
		t.Cleanup(discover.SetLimitsForTest(resolver, discover.LimitsForTest{Lookup: late, Addresses: late, Resend: late}))
		return dns, resolver
	}
	t.Run("a cancel gives up", func(t *testing.T) {
		t.Parallel()
		dns, resolver := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_ = dns.Wait(t.Context(), "silent.test", "A", 1)
			cancel()
		}()
		endpoints, err := resolver.Resolve(ctx)
		_ = wantLookupError(t, err, nil, dns.Addr(), "")
		if !errors.Is(err, context.Canceled) || len(endpoints) > 0 {
			t.Errorf("got %v, %v; want context.Canceled", endpoints, err)
		}
	})
	t.Run("a deadline leaves them to the dialer", func(t *testing.T) {
		t.Parallel()
		_, resolver := start(t)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		endpoints, err := resolver.Resolve(ctx)
		if diff := cmp.Diff([]string{"0 0 silent.test:7"}, lines(endpoints)); diff != "" || err != nil {
			t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
		}
	})
}

func TestSRVOfTheSystemLeavesAddressesToTheDialer(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetSRV(owner, evenkeeltest.SRV{Target: "a.test", Port: 7})
	dns.SetAddrs("a.test", addr("10.0.0.1"))
	resolver := newSRV(t, discover.SRVConfig{Name: name})
	defer discover.RedirectSystemForTest(resolver, dns.Addr())()
	endpoints, err := resolver.Resolve(lateContext(t))
	if diff := cmp.Diff([]string{"0 0 a.test:7"}, lines(endpoints)); diff != "" || err != nil {
		t.Fatalf("err %v, endpoints (-want +got):\n%s", err, diff)
	}
	if got := len(dns.Queries()); got != 1 {
		t.Errorf("got %d questions, want the one for SRV", got)
	}
	// What the dialer does next.
	addrs, err := discover.SystemResolverForTest(dns.Addr()).LookupNetIP(lateContext(t), "ip4", endpoints[0].LookupName())
	if err != nil || len(addrs) != 1 || addrs[0] != addr("10.0.0.1") {
		t.Errorf("LookupNetIP(%q) = %v, %v; want 10.0.0.1", endpoints[0].LookupName(), addrs, err)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

func TestSRVFailuresAreToldByTheReplyCode(t *testing.T) {
	t.Parallel()
	fault := func(f evenkeeltest.DNSFault) func(*testing.T, *evenkeeltest.DNS) {
		return func(t *testing.T, dns *evenkeeltest.DNS) {
			t.Helper()
			setFault(t, dns, owner, "", f)
		}
	}
	tests := []struct {
		name    string
		prepare func(*testing.T, *evenkeeltest.DNS)
		kind    error
		code    string
		text    string
	}{
		{"name that does not exist", func(*testing.T, *evenkeeltest.DNS) {}, discover.ErrNoSuchName, "NXDOMAIN", "no such name (NXDOMAIN); check the name"},
		{"name with other records", func(_ *testing.T, dns *evenkeeltest.DNS) { dns.SetAddrs(owner, addr("10.0.0.1")) }, discover.ErrNoRecords, "NOERROR", "name without SRV records; add SRV records"},
		{"alias of a name without SRV records", func(_ *testing.T, dns *evenkeeltest.DNS) {
			dns.SetCNAME(owner, "real.test")
			dns.SetAddrs("real.test", addr("10.0.0.1"))
		}, discover.ErrNoRecords, "NOERROR", "name without SRV records"},
		{"alias of itself", func(_ *testing.T, dns *evenkeeltest.DNS) { dns.SetCNAME(owner, owner) }, discover.ErrNoRecords, "NOERROR", "name without SRV records"},
		{"alias of a name that does not exist", func(_ *testing.T, dns *evenkeeltest.DNS) { dns.SetCNAME(owner, "absent.invalid") }, discover.ErrNoSuchName, "NXDOMAIN", "no such name"},
		{"all records say not here", func(_ *testing.T, dns *evenkeeltest.DNS) {
			dns.SetSRV(owner, evenkeeltest.SRV{Target: ".", Port: 1}, evenkeeltest.SRV{Target: "a.test", Port: 0})
		}, discover.ErrNoRecords, "NOERROR", "name without SRV records: 2 in the answer, all with target"},
		{"no records and neither AA nor RA", fault(evenkeeltest.DNSFault{Code: "NOERROR", Lame: true}), discover.ErrNoRecords, "NOERROR", "name without SRV records"},
		{"referral", fault(evenkeeltest.DNSFault{Code: "NOERROR", Lame: true, Referral: "ns.test"}), discover.ErrServerFailed, "NOERROR", "refers to other name servers"},
		{"SERVFAIL", fault(evenkeeltest.DNSFault{Code: "SERVFAIL"}), discover.ErrServerFailed, "SERVFAIL", "name server failed (SERVFAIL)"},
		{"REFUSED", fault(evenkeeltest.DNSFault{Code: "REFUSED"}), discover.ErrServerFailed, "REFUSED", "(REFUSED); the server does not answer for this name, ask another one"},
		{"FORMERR", fault(evenkeeltest.DNSFault{Code: "FORMERR"}), discover.ErrServerFailed, "FORMERR", "(FORMERR)"},
		{"NOTIMP", fault(evenkeeltest.DNSFault{Code: "NOTIMP"}), discover.ErrServerFailed, "NOTIMP", "(NOTIMP)"},
		{"NOTAUTH", fault(evenkeeltest.DNSFault{Code: "NOTAUTH"}), discover.ErrServerFailed, "NOTAUTH", "(NOTAUTH)"},
		{"a code without a name", fault(evenkeeltest.DNSFault{Raw: func(q evenkeeltest.DNSQuery) [][]byte {
			reply := rawReply(q.Packed)
			reply[3] = 13
			return [][]byte{reply}
		}}), discover.ErrServerFailed, "RCODE13", "(RCODE13)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
				tt.prepare(t, dns)
				endpoints, err := resolver.Resolve(lateContext(t))
				failed := wantLookupError(t, err, tt.kind, dns.Addr(), tt.code)
				if !strings.Contains(err.Error(), tt.text) || len(endpoints) > 0 {
					t.Errorf("got %v, %q; want nothing and a text with %q", endpoints, err, tt.text)
				}
				if failed.Timeout() {
					t.Error("Timeout() = true, want false")
				}
			})
		})
	}
}

func TestSRVReplyWithoutQuestionIsAFailure(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	setFault(t, dns, owner, "", evenkeeltest.DNSFault{Raw: func(q evenkeeltest.DNSQuery) [][]byte {
		return [][]byte{{q.Packed[0], q.Packed[1], 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0}}
	}})
	resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: dns.Addr()})
	_, err := resolver.Resolve(lateContext(t))
	_ = wantLookupError(t, err, discover.ErrServerFailed, dns.Addr(), "FORMERR")
}

func TestSRVReplyCodeWithUpperBits(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		setFault(t, dns, owner, "", evenkeeltest.DNSFault{Raw: func(q evenkeeltest.DNSQuery) [][]byte {
			reply := rawReply(q.Packed)
			reply[11] = 1 // one additional record: OPT with the extended code 1, which makes 16
			return [][]byte{append(reply, 0, 0, 41, 4, 0xD0, 1, 0, 0, 0, 0, 0)}
		}})
		_, err := resolver.Resolve(lateContext(t))
		_ = wantLookupError(t, err, discover.ErrServerFailed, dns.Addr(), "BADVERS")
	})
}

func TestSRVNothingListens(t *testing.T) {
	t.Parallel()
	for _, path := range paths() {
		t.Run(path.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := path.resolver(t, closedPort()).Resolve(lateContext(t))
			_ = wantLookupError(t, err, discover.ErrServerFailed, closedPort(), "")
			if !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "check that a DNS server listens there") {
				t.Errorf("got %q, want the cause and what to do", err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("took %v, want it to end at once", took)
			}
		})
	}
}

func TestSRVTruncatedAndNothingListensOnTCP(t *testing.T) {
	t.Parallel()
	server := udpOnly(t, func(query []byte) [][]byte {
		reply := rawReply(query)
		reply[2] |= 2 // TC
		return [][]byte{reply}
	})
	for _, path := range paths() {
		t.Run(path.name, func(t *testing.T) {
			t.Parallel()
			_, err := path.resolver(t, server).Resolve(lateContext(t))
			_ = wantLookupError(t, err, discover.ErrServerFailed, server, "")
			if !strings.Contains(err.Error(), "truncated over UDP and asking over TCP failed") {
				t.Errorf("got %q, want it to say that TCP failed", err)
			}
		})
	}
}

func TestSRVGarbageOverTCP(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		setFault(t, dns, owner, "", evenkeeltest.DNSFault{Raw: func(q evenkeeltest.DNSQuery) [][]byte {
			reply := rawReply(q.Packed)
			reply[2] |= 2
			if q.Network == "tcp" {
				reply = []byte("no DNS message")
			}
			return [][]byte{reply}
		}})
		_, err := resolver.Resolve(lateContext(t))
		_ = wantLookupError(t, err, discover.ErrServerFailed, dns.Addr(), "")
	})
}

func TestSRVGarbageIsAServerThatFailed(t *testing.T) {
	t.Parallel()
	garbage := map[string]func(query []byte) []byte{
		"text":                func([]byte) []byte { return []byte("this is no DNS message, I fear") },
		"empty":               func([]byte) []byte { return nil },
		"question cut":        func(query []byte) []byte { return rawReply(query)[:20] },
		"the query itself":    func(query []byte) []byte { return query },
		"id of another query": func(query []byte) []byte { reply := rawReply(query); reply[0] ^= 1; return reply },
	}
	for name, spoil := range garbage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
				setFault(t, dns, owner, "", evenkeeltest.DNSFault{Raw: func(q evenkeeltest.DNSQuery) [][]byte {
					return [][]byte{spoil(q.Packed)}
				}})
				defer discover.SetLimitsForTest(resolver, discover.LimitsForTest{Lookup: 500 * time.Millisecond})()
				_, err := resolver.Resolve(lateContext(t))
				_ = wantLookupError(t, err, discover.ErrServerFailed, dns.Addr(), "")
			})
		})
	}
}

func TestSRVForgedRepliesArePassedOver(t *testing.T) {
	t.Parallel()
	evil := rawRecord(33, srvBody(0, 0, 1, "evil", "test"))
	good := rawRecord(33, srvBody(0, 0, 1, "good", "test"))
	forged := func(q evenkeeltest.DNSQuery) [][]byte {
		wrongID, wrongName, wrongType := rawReply(q.Packed, evil), rawReply(q.Packed, evil), rawReply(q.Packed, evil)
		wrongID[1] ^= 0xFF
		wrongName[13] ^= 1
		wrongType[questionEnd(q.Packed)-3]++
		noReply := rawReply(q.Packed, evil)
		noReply[2] &^= 0x80
		return [][]byte{{}, []byte("junk"), wrongID, wrongName, wrongType, noReply, rawReply(q.Packed, good)}
	}
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		setFault(t, dns, owner, "", evenkeeltest.DNSFault{Raw: forged})
		endpoints, err := resolver.Resolve(lateContext(t))
		if diff := cmp.Diff([]string{"0 0 good.test:1"}, lines(endpoints)); diff != "" || err != nil {
			t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
		}
	})
}

func TestSRVSilentServerAndCancel(t *testing.T) {
	t.Parallel()
	faults := map[string]evenkeeltest.DNSFault{
		"silent over UDP": {Silent: true},
		"silent over TCP": {Raw: func(q evenkeeltest.DNSQuery) [][]byte {
			if q.Network == "tcp" {
				return nil
			}
			reply := rawReply(q.Packed)
			reply[2] |= 2
			return [][]byte{reply}
		}},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
				setFault(t, dns, owner, "", fault)
				ctx, cancel := context.WithCancel(lateContext(t))
				queries := 1
				if fault.Raw != nil {
					queries = 2
				}
				cancelled := make(chan time.Time, 1)
				go func() {
					_ = dns.Wait(ctx, owner, "SRV", queries)
					cancelled <- time.Now()
					cancel()
				}()
				_, err := resolver.Resolve(ctx)
				// The bound is 100 ms; a busy machine gets more, a lookup that waits for its own limits still fails.
				if took := time.Since(<-cancelled); took > time.Second {
					t.Errorf("returned %v after the cancel, want 100 ms at most", took)
				}
				_ = wantLookupError(t, err, nil, dns.Addr(), "")
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want context.Canceled", err)
				}
			})
		})
	}
}

func TestSRVSilentServerAndDeadline(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		setFault(t, dns, owner, "", evenkeeltest.DNSFault{Silent: true})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := resolver.Resolve(ctx)
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v, want 200 ms", took)
		}
		failed := wantLookupError(t, err, discover.ErrTimeout, dns.Addr(), "")
		if !errors.Is(err, context.DeadlineExceeded) || !failed.Timeout() {
			t.Errorf("got %v, want context.DeadlineExceeded and Timeout()", err)
		}
	})
}

// Both ways wait at once and in one test, since this takes the whole 5 s.
func TestSRVSilentServerAndNoDeadline(t *testing.T) {
	t.Parallel()
	type result struct {
		server *evenkeeltest.DNS
		err    error
		took   time.Duration
	}
	results := make([]result, len(paths()))
	var group sync.WaitGroup
	for i, path := range paths() {
		dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
		setFault(t, dns, owner, "", evenkeeltest.DNSFault{Silent: true})
		resolver := path.resolver(t, dns.Addr())
		group.Go(func() {
			began := time.Now()
			_, err := resolver.Resolve(t.Context())
			results[i] = result{dns, err, time.Since(began)}
		})
	}
	group.Wait()
	for _, r := range results {
		if r.took < 3*time.Second || r.took > 6*time.Second {
			t.Errorf("took %v, want several attempts in 5 s at most", r.took)
		}
		_ = wantLookupError(t, r.err, discover.ErrTimeout, r.server.Addr(), "")
		if errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("got %v, which blames the caller's deadline; there was none", r.err)
		}
		if got := r.server.Count(owner, "SRV"); got < 2 || got > 4 {
			t.Errorf("asked %d times, want 2 to 4", got)
		}
	}
}

func TestSRVContextThatHasEnded(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := resolver.Resolve(ctx)
		_ = wantLookupError(t, err, nil, "", "")
		if !errors.Is(err, context.Canceled) || len(dns.Queries()) > 0 {
			t.Errorf("got %v and %d questions, want context.Canceled and none", err, len(dns.Queries()))
		}
	})
}

func TestSRVLostDatagramIsSentAgain(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		var queries atomic.Int32
		setFault(t, dns, owner, "", evenkeeltest.DNSFault{Raw: func(q evenkeeltest.DNSQuery) [][]byte {
			if queries.Add(1) == 1 {
				return nil
			}
			return [][]byte{rawReply(q.Packed, rawRecord(33, srvBody(0, 0, 1, "a", "test")))}
		}})
		// The system's resolver has its own limit, of 2 s.
		defer discover.SetLimitsForTest(resolver, discover.LimitsForTest{Resend: 50 * time.Millisecond})()
		endpoints, err := resolver.Resolve(lateContext(t))
		if diff := cmp.Diff([]string{"0 0 a.test:1"}, lines(endpoints)); diff != "" || err != nil {
			t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
		}
	})
}

// A reply that comes when the query has been sent again already answers it all the same.
func TestSRVSlowServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	gate := make(chan struct{})
	setFault(t, dns, owner, "", evenkeeltest.DNSFault{Gate: gate})
	dns.SetSRV(owner, evenkeeltest.SRV{Target: "a.test", Port: 1})
	resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: dns.Addr()})
	defer discover.SetLimitsForTest(resolver, discover.LimitsForTest{Resend: 20 * time.Millisecond})()
	go func() {
		_ = dns.Wait(t.Context(), owner, "SRV", 4)
		close(gate)
	}()
	endpoints, err := resolver.Resolve(lateContext(t))
	if diff := cmp.Diff([]string{"0 0 a.test:1"}, lines(endpoints)); diff != "" || err != nil {
		t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
	}
	queries := dns.Queries()
	if string(queries[0].Packed) != string(queries[1].Packed) {
		t.Error("the query that was sent again is another one: a late reply to the first would be lost")
	}
}

func TestSRVQueriesHaveRandomIDs(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: dns.Addr()})
	for range 8 {
		_, _ = resolver.Resolve(lateContext(t))
	}
	ids := make(map[string]bool)
	for _, query := range dns.Queries() {
		ids[fmt.Sprintf("%x", query.Packed[:2])] = true
	}
	if len(ids) < 4 {
		t.Errorf("8 queries had %d ids: %v", len(ids), ids)
	}
}

func TestSRVSeveralServersOfTheSystem(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, code string) *evenkeeltest.DNS {
		t.Helper()
		dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
		dns.SetSRV(owner, evenkeeltest.SRV{Target: "a.test", Port: 1})
		setFault(t, dns, owner, "", evenkeeltest.DNSFault{Code: code})
		return dns
	}
	t.Run("the one that answers counts", func(t *testing.T) {
		t.Parallel()
		bad, good := start(t, "SERVFAIL"), start(t, "")
		resolver := newSRV(t, discover.SRVConfig{Name: name})
		defer discover.RedirectSystemForTest(resolver, bad.Addr(), good.Addr())()
		endpoints, err := resolver.Resolve(lateContext(t))
		if diff := cmp.Diff([]string{"0 0 a.test:1"}, lines(endpoints)); diff != "" || err != nil {
			t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
		}
	})
	t.Run("the error names all", func(t *testing.T) {
		t.Parallel()
		first, second := start(t, "SERVFAIL"), start(t, "REFUSED")
		resolver := newSRV(t, discover.SRVConfig{Name: name})
		defer discover.RedirectSystemForTest(resolver, first.Addr(), second.Addr())()
		_, err := resolver.Resolve(lateContext(t))
		failed := wantLookupError(t, err, discover.ErrServerFailed, second.Addr(), "REFUSED")
		if diff := cmp.Diff([]string{first.Addr(), second.Addr()}, failed.Asked); diff != "" {
			t.Errorf("Asked (-want +got):\n%s", diff)
		}
		if !strings.Contains(err.Error(), first.Addr()) {
			t.Errorf("got %q, want it to name %s too", err, first.Addr())
		}
	})
}

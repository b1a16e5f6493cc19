// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

func newDNS(t *testing.T, config discover.DNSConfig) *discover.DNS {
	t.Helper()
	resolver, err := discover.NewDNS(config)
	if err != nil {
		t.Fatal(err)
	}
	return resolver
}

// onBothDNSPaths runs a test against a server of its own: once asked by name, and once taken for the system's. The name
// is absolute, so that the search list of the machine does not matter.
func onBothDNSPaths(t *testing.T, test func(t *testing.T, dns *evenkeeltest.DNS, resolver *discover.DNS)) {
	t.Helper()
	for _, system := range []bool{false, true} {
		t.Run(map[bool]string{false: "name server", true: "system"}[system], func(t *testing.T) {
			t.Parallel()
			dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
			if !system {
				test(t, dns, newDNS(t, discover.DNSConfig{Name: name + ".", Port: 7000, NameServer: dns.Addr()}))
				return
			}
			resolver := newDNS(t, discover.DNSConfig{Name: name + ".", Port: 7000})
			t.Cleanup(discover.RedirectSystemForTest(resolver, dns.Addr()))
			test(t, dns, resolver)
		})
	}
}

// addrLines shows endpoints as "host:port (name to verify) [addresses]", sorted.
func addrLines(endpoints []discover.Endpoint) []string {
	var shown []string
	for _, e := range endpoints {
		shown = append(shown, fmt.Sprintf("%s (%s) %v", e, e.VerifyName(), e.Addrs))
	}
	slices.Sort(shown)
	return shown
}

func TestDNSMakesEndpointsOfAddresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		addrs []string
		want  []string
	}{
		{"one A", []string{"127.0.0.1"}, []string{"127.0.0.1:7000 (x.test) [127.0.0.1:7000]"}},
		{"one AAAA", []string{"::1"}, []string{"[::1]:7000 (x.test) [[::1]:7000]"}},
		{
			"one A and one AAAA are one server",
			[]string{"127.0.0.1", "::1"},
			[]string{"x.test:7000 (x.test) [[::1]:7000 127.0.0.1:7000]"},
		},
		{
			"two A",
			[]string{"127.0.0.1", "127.0.0.2"},
			[]string{"127.0.0.1:7000 (x.test) [127.0.0.1:7000]", "127.0.0.2:7000 (x.test) [127.0.0.2:7000]"},
		},
		{
			"two A and one AAAA are three servers",
			[]string{"127.0.0.1", "127.0.0.2", "::1"},
			[]string{
				"127.0.0.1:7000 (x.test) [127.0.0.1:7000]", "127.0.0.2:7000 (x.test) [127.0.0.2:7000]",
				"[::1]:7000 (x.test) [[::1]:7000]",
			},
		},
		{
			"two AAAA",
			[]string{"::1", "fd00::2"},
			[]string{"[::1]:7000 (x.test) [[::1]:7000]", "[fd00::2]:7000 (x.test) [[fd00::2]:7000]"},
		},
		{
			"twice the same",
			[]string{"127.0.0.1", "127.0.0.1", "::1"},
			[]string{"x.test:7000 (x.test) [[::1]:7000 127.0.0.1:7000]"},
		},
		{
			"addresses of nobody",
			[]string{"0.0.0.0", "224.0.0.1", "127.0.0.1", "::"},
			[]string{"127.0.0.1:7000 (x.test) [127.0.0.1:7000]"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			onBothDNSPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver *discover.DNS) {
				var addrs []netip.Addr
				for _, a := range test.addrs {
					addrs = append(addrs, addr(a))
				}
				dns.SetAddrs(name, addrs...)
				got, err := resolver.Resolve(lateContext(t))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, addrLines(got)); diff != "" {
					t.Errorf("unexpected endpoints, -want +got:\n%s", diff)
				}
				for _, e := range got {
					if e.Authority() != "x.test:7000" {
						t.Errorf("authority %q, want that of the name", e.Authority())
					}
				}
			})
		})
	}
}

func TestDNSFollowsAliases(t *testing.T) {
	t.Parallel()
	onBothDNSPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver *discover.DNS) {
		dns.SetCNAME(name, "real.test")
		dns.SetAddrs("real.test", addr("127.0.0.7"))
		got, err := resolver.Resolve(lateContext(t))
		if want := []string{"127.0.0.7:7000 (x.test) [127.0.0.7:7000]"}; err != nil || !slices.Equal(addrLines(got), want) {
			t.Errorf("got %v, %v, want %v", addrLines(got), err, want)
		}
	})
}

// DNS servers in front of a headless service answer with more than a datagram holds (scenario 19).
func TestDNSAsksOverTCPWhenTwoHundredRecordsDoNotFit(t *testing.T) {
	t.Parallel()
	onBothDNSPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver *discover.DNS) {
		var addrs []netip.Addr
		for i := range 200 {
			addrs = append(addrs, netip.AddrFrom4([4]byte{127, 1, 0, byte(i)}))
		}
		dns.SetAddrs(name, addrs...)
		got, err := resolver.Resolve(lateContext(t))
		if err != nil || len(got) != len(addrs) {
			t.Fatalf("got %d endpoints, %v, want %d", len(got), err, len(addrs))
		}
		if !slices.ContainsFunc(dns.Queries(), func(q evenkeeltest.DNSQuery) bool { return q.Network == "tcp" && q.Type == "A" }) {
			t.Error("the question did not come over TCP")
		}
	})
}

func TestDNSTellsFailuresApart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		set    func(t *testing.T, dns *evenkeeltest.DNS)
		kind   error
		record string
		code   string
		text   string
	}{
		{"no such name", func(*testing.T, *evenkeeltest.DNS) {}, discover.ErrNoSuchName, "A and AAAA", "NXDOMAIN", "no such name"},
		{"other records only", func(t *testing.T, dns *evenkeeltest.DNS) {
			if err := dns.AddRecord(`x.test. 5 IN TXT "here"`); err != nil {
				t.Fatal(err)
			}
		}, discover.ErrNoRecords, "A and AAAA", "NOERROR", "name without A and AAAA records; add A or AAAA records"},
		{"the name exists for one family only", func(t *testing.T, dns *evenkeeltest.DNS) {
			setFault(t, dns, name, "A", evenkeeltest.DNSFault{Code: "NXDOMAIN"})
			setFault(t, dns, name, "AAAA", evenkeeltest.DNSFault{Code: "NOERROR"})
		}, discover.ErrNoRecords, "A and AAAA", "NOERROR", "name without A and AAAA records"},
		{"servers fail", func(t *testing.T, dns *evenkeeltest.DNS) {
			setFault(t, dns, "", "", evenkeeltest.DNSFault{Code: "SERVFAIL"})
		}, discover.ErrServerFailed, "A", "SERVFAIL", "name server failed"},
		{"one family fails and the other has nothing", func(t *testing.T, dns *evenkeeltest.DNS) {
			setFault(t, dns, name, "AAAA", evenkeeltest.DNSFault{Code: "REFUSED"})
		}, discover.ErrServerFailed, "AAAA", "REFUSED", "name server failed"},
		{"a referral", func(t *testing.T, dns *evenkeeltest.DNS) {
			setFault(t, dns, "", "", evenkeeltest.DNSFault{Code: "NOERROR", Lame: true, Referral: "ns.test"})
		}, discover.ErrServerFailed, "A", "NOERROR", "refers to other name servers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			onBothDNSPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver *discover.DNS) {
				test.set(t, dns)
				got, err := resolver.Resolve(lateContext(t))
				failed, ok := errors.AsType[*discover.LookupError](err)
				if !ok || len(got) > 0 {
					t.Fatalf("got %v, %T %v, want a *LookupError alone", got, err, err)
				}
				for _, kind := range []error{discover.ErrNoSuchName, discover.ErrNoRecords, discover.ErrServerFailed, discover.ErrTimeout} {
					if got, want := errors.Is(err, kind), kind == test.kind; got != want { //nolint:errorlint // identity is meant
						t.Errorf("errors.Is(%q, %q) = %v, want %v", err, kind, got, want)
					}
				}
				if failed.Name != name || failed.Type != test.record || failed.Code != test.code || failed.Server != dns.Addr() {
					t.Errorf("got name %q, type %q, code %q, server %q; want %q, %q, %q, %q",
						failed.Name, failed.Type, failed.Code, failed.Server, name, test.record, test.code, dns.Addr())
				}
				if !strings.Contains(err.Error(), test.text) {
					t.Errorf("the text %q does not contain %q", err, test.text)
				}
			})
		})
	}
}

func TestDNSTimesOutAndIsCancelled(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	setFault(t, dns, "", "", evenkeeltest.DNSFault{Silent: true})
	resolver := newDNS(t, discover.DNSConfig{Name: name, NameServer: dns.Addr(), Timeout: 150 * time.Millisecond})
	_, err := resolver.Resolve(lateContext(t))
	if !errors.Is(err, discover.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), dns.Addr()) {
		t.Errorf("silent server: got %v, want a timeout at the name server that is not the caller's", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := resolver.Resolve(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, discover.ErrTimeout) {
		t.Errorf("cancelled before: got %v", err)
	}
	long := newDNS(t, discover.DNSConfig{Name: "long.test", NameServer: dns.Addr()})
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := long.Resolve(ctx)
		failed <- err
	}()
	if err := dns.Wait(lateContext(t), "long.test", "A", 1); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled meanwhile: got %v", err)
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("ended %v after the cancel, want 100 ms at most", took)
	}
}

func TestDNSKeepsWhatAFamilyHadWhenItsLookupFails(t *testing.T) {
	t.Parallel()
	onBothDNSPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver *discover.DNS) {
		const v4, v6 = "127.0.0.1:7000 (x.test) [127.0.0.1:7000]", "x.test:7000 (x.test) [[::1]:7000 127.0.0.1:7000]"
		dns.SetAddrs(name, addr("127.0.0.1"), addr("::1"))
		look := func(want string, wantPartial bool) {
			t.Helper()
			got, err := resolver.Resolve(lateContext(t))
			if !slices.Equal(addrLines(got), []string{want}) {
				t.Errorf("got %v, want %s", addrLines(got), want)
			}
			partial, ok := errors.AsType[*discover.PartialError](err)
			if ok != wantPartial || err != nil && !ok {
				t.Fatalf("got %v, want a *PartialError: %v", err, wantPartial)
			}
			if !ok {
				return
			}
			if text := err.Error(); !strings.Contains(text, "A and AAAA records of x.test are incomplete") ||
				!strings.Contains(text, "look up AAAA records of x.test at name server "+dns.Addr()+": name server failed (SERVFAIL)") ||
				partial.Server != dns.Addr() || partial.Name != name {
				t.Errorf("got %+v %q", partial, text)
			}
		}
		setFault(t, dns, name, "AAAA", evenkeeltest.DNSFault{Code: "SERVFAIL"})
		look(v4, true) // nothing is known of AAAA yet
		dns.ClearFaults()
		look(v6, false)
		setFault(t, dns, name, "AAAA", evenkeeltest.DNSFault{Code: "SERVFAIL"})
		look(v6, true)
		setFault(t, dns, name, "AAAA", evenkeeltest.DNSFault{Code: "NOERROR"})
		look(v4, false) // an answer takes it away
		setFault(t, dns, name, "AAAA", evenkeeltest.DNSFault{Code: "SERVFAIL"})
		look(v4, true)
	})
}

func TestDNSAddressesStandForThemselves(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ given, want string }{
		{"127.0.0.1", "127.0.0.1:443"},
		{"::1", "[::1]:443"},
		{"::ffff:127.0.0.1", "127.0.0.1:443"},
		{"fe80::1%eth0", "[fe80::1%eth0]:443"},
	} {
		resolver := newDNS(t, discover.DNSConfig{Name: test.given, NameServer: closedPort()})
		got, err := resolver.Resolve(lateContext(t))
		if err != nil || len(got) != 1 || got[0].Addr() != test.want {
			t.Errorf("%s: got %v, %v, want %s", test.given, got, err, test.want)
		}
		if got := got[0].VerifyName(); strings.Contains(got, "%") {
			t.Errorf("%s: the name to verify is %q, with a zone", test.given, got)
		}
	}
}

func TestDNSAsksTheNameServerByItsName(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs(name, addr("127.0.0.1"))
	_, port, _ := strings.Cut(dns.Addr(), ":")
	resolver := newDNS(t, discover.DNSConfig{Name: name, NameServer: "localhost:" + port})
	got, err := resolver.Resolve(lateContext(t))
	if err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	resolver = newDNS(t, discover.DNSConfig{Name: name, NameServer: "nowhere.invalid.:" + port})
	if _, err := resolver.Resolve(lateContext(t)); !errors.Is(err, discover.ErrServerFailed) && !errors.Is(err, discover.ErrTimeout) ||
		!strings.Contains(err.Error(), "its own name") {
		t.Errorf("got %v, want that the name server's own name is unknown", err)
	}
}

func TestNewDNSRefusesWhatNamesNoServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		config discover.DNSConfig
		want   string
	}{
		{"nothing", discover.DNSConfig{}, "is empty"},
		{"a dot", discover.DNSConfig{Name: "."}, "is empty"},
		{"empty label", discover.DNSConfig{Name: "a..b"}, "empty label"},
		{"half an address", discover.DNSConfig{Name: "10.0.1"}, "IP address"},
		{"brackets", discover.DNSConfig{Name: "[::1]"}, "no host name has"},
		{"letters", discover.DNSConfig{Name: "bücher.test"}, "non-ASCII"},
		{"length", discover.DNSConfig{Name: strings.Repeat("a", 64)}, "longer than 63"},
		{"name server", discover.DNSConfig{Name: name, NameServer: "::1"}, "the name server of a DNS lookup"},
		{"timeout", discover.DNSConfig{Name: name, Timeout: -1}, "negative"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := discover.NewDNS(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want it to contain %q", err, test.want)
			}
		})
	}
}

func TestDNSNamesItsTarget(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		config discover.DNSConfig
		want   string
	}{
		{discover.DNSConfig{Name: "X.Test."}, "dns:///x.test.:443"},
		{discover.DNSConfig{Name: "x.test", Port: 1, NameServer: "[::1]"}, "dns://[::1]:53/x.test:1"},
		{discover.DNSConfig{Name: "::1", Port: 1}, "dns:///[::1]:1"},
	} {
		if got := newDNS(t, test.config).String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestDNSHidesMalformedRecords(t *testing.T) {
	t.Parallel()
	server := udpOnly(t, func(query []byte) [][]byte {
		if query[questionEnd(query)-3] != 1 { // AAAA
			return [][]byte{rawReply(query)}
		}
		return [][]byte{rawReply(query, rawRecord(1, []byte{127, 0, 0, 1}), rawRecord(1, []byte{127, 0, 0}))}
	})
	got, err := newDNS(t, discover.DNSConfig{Name: name, NameServer: server}).Resolve(lateContext(t))
	partial, ok := errors.AsType[*discover.PartialError](err)
	if !ok || partial.Dropped != 1 || len(got) != 1 {
		t.Errorf("got %v, %v, want one endpoint and one record left out", got, err)
	}
}

// The hosts file goes before name servers, as everywhere.
func TestDNSReadsTheHostsFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the hosts file has no localhost")
	}
	resolver := newDNS(t, discover.DNSConfig{Name: "localhost"})
	t.Cleanup(discover.RedirectSystemForTest(resolver, closedPort()))
	got, err := resolver.Resolve(lateContext(t))
	if err != nil || len(got) == 0 {
		t.Fatalf("got %v, %v, want the loopback addresses", got, err)
	}
	for _, e := range got {
		if e.VerifyName() != "localhost" || !e.Addrs[0].Addr().IsLoopback() {
			t.Errorf("got %v with %v", e, e.Addrs)
		}
	}
}

func TestDNSOfTheSystemIsSilentOrGone(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	setFault(t, dns, "", "", evenkeeltest.DNSFault{Silent: true})
	for _, test := range []struct {
		name, server string
		want         error
	}{
		{"silent", dns.Addr(), discover.ErrTimeout},
		{"gone", closedPort(), discover.ErrServerFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			resolver := newDNS(t, discover.DNSConfig{Name: name + ".", Timeout: 200 * time.Millisecond})
			t.Cleanup(discover.RedirectSystemForTest(resolver, test.server))
			_, err := resolver.Resolve(lateContext(t))
			failed, ok := errors.AsType[*discover.LookupError](err)
			if !ok || !errors.Is(err, test.want) || failed.Server != test.server || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v at %s", err, test.want, test.server)
			}
		})
	}
}

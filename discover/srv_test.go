// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/internal/need"
)

func TestSRVRecordsBecomeEndpoints(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		records []evenkeeltest.SRV
		want    []string
	}{
		{
			"priority ascending, then weight descending, then host and port",
			[]evenkeeltest.SRV{
				{Target: "e.test", Port: 1, Priority: 2, Weight: 9},
				{Target: "d.test", Port: 1, Priority: 1},
				{Target: "b.test", Port: 2, Priority: 1, Weight: 5},
				{Target: "b.test", Port: 1, Priority: 1, Weight: 5},
				{Target: "a.test", Port: 1, Priority: 1, Weight: 5},
				{Target: "c.test", Port: 1, Priority: 1, Weight: 7},
			},
			[]string{"1 7 c.test:1", "1 5 a.test:1", "1 5 b.test:1", "1 5 b.test:2", "1 0 d.test:1", "2 9 e.test:1"},
		},
		{
			"final dots are stripped and letters lowered",
			[]evenkeeltest.SRV{{Target: "Node_1.EXAMPLE.test.", Port: 35000}},
			[]string{"0 0 node_1.example.test:35000"},
		},
		{
			"a target of a dot and port 0 mean not here",
			[]evenkeeltest.SRV{{Target: ".", Port: 35000}, {Target: "a.test", Port: 0}, {Target: "b.test", Port: 1}},
			[]string{"0 0 b.test:1"},
		},
		{
			"duplicates collapse to the lowest priority",
			[]evenkeeltest.SRV{{Target: "a.test", Port: 1, Priority: 3, Weight: 9}, {Target: "A.test.", Port: 1, Priority: 2, Weight: 1}},
			[]string{"2 1 a.test:1"},
		},
		{
			"duplicates of one priority collapse to the highest weight",
			[]evenkeeltest.SRV{{Target: "a.test", Port: 1, Weight: 1}, {Target: "a.test", Port: 1, Weight: 8}, {Target: "a.test", Port: 2, Weight: 3}},
			[]string{"0 8 a.test:1", "0 3 a.test:2"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
				dns.SetSRV(owner, tt.records...)
				endpoints, err := resolver.Resolve(lateContext(t))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, lines(endpoints)); diff != "" {
					t.Errorf("endpoints (-want +got):\n%s", diff)
				}
				for _, e := range endpoints {
					if want := e.Host + "."; !e.Absolute || e.LookupName() != want {
						t.Errorf("%s: absolute %v, looked up as %q; want true, %q", e, e.Absolute, e.LookupName(), want)
					}
				}
			})
		})
	}
}

func TestSRVNameIsAbsoluteAndAskedOnce(t *testing.T) {
	t.Parallel()
	codes := []string{"", "NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "FORMERR", "NOTIMP"}
	for _, code := range codes {
		t.Run("answer "+code, func(t *testing.T) {
			t.Parallel()
			dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
			dns.SetSRV(owner, evenkeeltest.SRV{Target: ".", Port: 1})
			setFault(t, dns, owner, "", evenkeeltest.DNSFault{Code: code, Lame: code == "NOERROR"})
			for _, name := range []string{"x.test", "X.Test."} {
				resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: dns.Addr()})
				if _, err := resolver.Resolve(lateContext(t)); err == nil {
					t.Error("got no error, want one")
				}
			}
			for _, query := range dns.Queries() {
				if query.Name != owner || query.Type != "SRV" {
					t.Errorf("asked for %s %s, want %s SRV only", query.Name, query.Type, owner)
				}
			}
			if got := len(dns.Queries()); got != 2 {
				t.Errorf("two lookups asked %d times, want twice", got)
			}
		})
	}
}

func TestSRVOfTheSystemAsksNoSearchList(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	resolver := newSRV(t, discover.SRVConfig{Name: name})
	defer discover.RedirectSystemForTest(resolver, dns.Addr())()
	_, err := resolver.Resolve(lateContext(t))
	_ = wantLookupError(t, err, discover.ErrNoSuchName, dns.Addr(), "NXDOMAIN")
	if queries := dns.Queries(); len(queries) != 1 || queries[0].Name != owner {
		t.Errorf("asked %+v, want %s once", queries, owner)
	}
}

func TestSRVServiceOfTheCaller(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetSRV("_grpc._udp.x.test", evenkeeltest.SRV{Target: "a.test", Port: 9})
	resolver := newSRV(t, discover.SRVConfig{Name: name, Service: "_GRPC._udp", NameServer: dns.Addr()})
	endpoints, err := resolver.Resolve(lateContext(t))
	if diff := cmp.Diff([]string{"0 0 a.test:9"}, lines(endpoints)); diff != "" || err != nil {
		t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
	}
}

func TestSRVIsAskedAfresh(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		for i, target := range []string{"a.test", "b.test"} {
			dns.SetSRV(owner, evenkeeltest.SRV{Target: target, Port: 1})
			endpoints, err := resolver.Resolve(lateContext(t))
			if diff := cmp.Diff([]string{"0 0 " + target + ":1"}, lines(endpoints)); diff != "" || err != nil {
				t.Errorf("lookup %d: err %v, endpoints (-want +got):\n%s", i, err, diff)
			}
		}
	})
}

// hundreds are more records than one datagram holds, and what becomes of them.
func hundreds() ([]evenkeeltest.SRV, []string) {
	var records []evenkeeltest.SRV
	var want []string
	for i := range 200 {
		host := fmt.Sprintf("a-rather-long-name-of-a-node-%03d.x.test", i)
		records = append(records, evenkeeltest.SRV{Target: host, Port: 35000})
		want = append(want, "0 0 "+host+":35000")
	}
	return records, want
}

func TestSRVAnswerTooLargeForUDP(t *testing.T) {
	t.Parallel()
	records, want := hundreds()
	tests := []struct {
		name     string
		fault    evenkeeltest.DNSFault
		networks []string
	}{
		{"truncated, then over TCP", evenkeeltest.DNSFault{}, []string{"udp", "tcp"}},
		{"truncated to nothing, then over TCP", evenkeeltest.DNSFault{Truncate: true}, []string{"udp", "tcp"}},
		{"sent whole all the same", evenkeeltest.DNSFault{Untruncated: true}, []string{"udp"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
				dns.SetSRV(owner, records...)
				setFault(t, dns, owner, "", tt.fault)
				endpoints, err := resolver.Resolve(lateContext(t))
				if diff := cmp.Diff(want, lines(endpoints)); diff != "" || err != nil {
					t.Fatalf("err %v, endpoints (-want +got):\n%s", err, diff)
				}
				var networks []string
				for _, query := range dns.Queries() {
					if query.Type == "SRV" {
						networks = append(networks, query.Network)
					}
				}
				if !slices.Equal(networks, tt.networks) {
					t.Errorf("asked over %v, want %v", networks, tt.networks)
				}
			})
		})
	}
}

func TestSRVNameServerOnIPv6(t *testing.T) {
	t.Parallel()
	need.IPv6(t)
	records, want := hundreds()
	for _, path := range paths() {
		t.Run(path.name, func(t *testing.T) {
			t.Parallel()
			dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{Addr: "[::1]:0"})
			dns.SetSRV(owner, records...) // over UDP and TCP
			endpoints, err := path.resolver(t, dns.Addr()).Resolve(lateContext(t))
			if diff := cmp.Diff(want, lines(endpoints)); diff != "" || err != nil {
				t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestSRVNameServerGivenByName(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetSRV(owner, evenkeeltest.SRV{Target: "a.test", Port: 1})
	// localhost may have ::1 as well, where nothing listens: the next address is asked then.
	byName := strings.Replace(dns.Addr(), "127.0.0.1", "localhost", 1)
	resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: byName})
	endpoints, err := resolver.Resolve(lateContext(t))
	if diff := cmp.Diff([]string{"0 0 a.test:1"}, lines(endpoints)); diff != "" || err != nil {
		t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
	}
	dns.SetSRV(owner)
	_, err = resolver.Resolve(lateContext(t))
	_ = wantLookupError(t, err, discover.ErrNoSuchName, dns.Addr(), "NXDOMAIN")
}

func TestSRVFollowsCNAMEs(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		dns.SetCNAME(owner, "Alias.test")
		dns.SetCNAME("alias.test", "real.test")
		dns.SetSRV("real.test", evenkeeltest.SRV{Target: "a.test", Port: 1})
		endpoints, err := resolver.Resolve(lateContext(t))
		if diff := cmp.Diff([]string{"0 0 a.test:1"}, lines(endpoints)); diff != "" || err != nil {
			t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
		}
	})
}

func TestSRVIgnoresForeignRecords(t *testing.T) {
	t.Parallel()
	foreign := []string{
		"_chronicle._tcp.other.test. SRV 0 0 1 evil.test.",
		"x.test. SRV 0 0 1 evil.test.",
		"unrelated.test. CNAME other.test.",
		"_chronicle._tcp.x.test. TXT \"no server\"",
		"_chronicle._tcp.x.test. CH SRV 0 0 1 evil.test.",
	}
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		setFault(t, dns, owner, "", evenkeeltest.DNSFault{Extra: foreign})
		dns.SetSRV(owner, evenkeeltest.SRV{Target: "a.test", Port: 1})
		endpoints, err := resolver.Resolve(lateContext(t))
		if diff := cmp.Diff([]string{"0 0 a.test:1"}, lines(endpoints)); diff != "" || err != nil {
			t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
		}
	})
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		dns.SetAddrs(owner, addr("10.0.0.1"))
		setFault(t, dns, owner, "", evenkeeltest.DNSFault{Extra: foreign})
		_, err := resolver.Resolve(lateContext(t))
		_ = wantLookupError(t, err, discover.ErrNoRecords, dns.Addr(), "NOERROR")
	})
}

func TestSRVConcurrentLookups(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver) {
		records, want := hundreds()
		dns.SetSRV(owner, records[:20]...)
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				endpoints, err := resolver.Resolve(lateContext(t))
				if diff := cmp.Diff(want[:20], lines(endpoints)); diff != "" || err != nil {
					t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
				}
			})
		}
		group.Wait()
	})
}

func TestSRVRefusesBadConfigurations(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63) + "."
	tests := []struct {
		name   string
		config discover.SRVConfig
		want   string
	}{
		{"no name", discover.SRVConfig{}, "name of an SRV lookup is empty"},
		{"only a dot", discover.SRVConfig{Name: "."}, "is empty"},
		{"blank", discover.SRVConfig{Name: "a b"}, "character ' '"},
		{"port", discover.SRVConfig{Name: "a:1"}, "character ':'"},
		{"address", discover.SRVConfig{Name: "127.0.0.1"}, "IP address"},
		{"empty label", discover.SRVConfig{Name: "a..b"}, "empty label"},
		{"two final dots", discover.SRVConfig{Name: "a.."}, "empty label"},
		{"hyphen", discover.SRVConfig{Name: "-a.b"}, "hyphen"},
		{"non-ASCII", discover.SRVConfig{Name: "bücher.test"}, "punycode"},
		{"a letter whose lower case is ASCII", discover.SRVConfig{Name: "\u212Aa.test"}, "punycode"},
		{"label too long", discover.SRVConfig{Name: strings.Repeat("a", 64)}, "label longer than 63"},
		{"name too long", discover.SRVConfig{Name: strings.Repeat(long, 4)}, "longer than 253"},
		{"name too long with the service", discover.SRVConfig{Name: strings.Repeat(long, 3) + strings.Repeat("a", 50)}, "longer than 253 bytes with its service"},
		{"service without underscore", discover.SRVConfig{Name: "a", Service: "chronicle._tcp"}, "_service._proto"},
		{"service of one label", discover.SRVConfig{Name: "a", Service: "_chronicle"}, "_service._proto"},
		{"service of three labels", discover.SRVConfig{Name: "a", Service: "_a._b._c"}, "_service._proto"},
		{"name server without host", discover.SRVConfig{Name: "a", NameServer: ":53"}, "name server of an SRV lookup is empty"},
		{"name server with an empty port", discover.SRVConfig{Name: "a", NameServer: "10.0.0.1:"}, "port"},
		{"name server with port 0", discover.SRVConfig{Name: "a", NameServer: "10.0.0.1:0"}, "port"},
		{"name server with a port too large", discover.SRVConfig{Name: "a", NameServer: "10.0.0.1:65536"}, "port"},
		{"name server with a signed port", discover.SRVConfig{Name: "a", NameServer: "10.0.0.1:+53"}, "port"},
		{"bare IPv6 name server", discover.SRVConfig{Name: "a", NameServer: "::1"}, "put IPv6 addresses in brackets"},
		{"name server with half a bracket", discover.SRVConfig{Name: "a", NameServer: "[::1"}, "unbalanced brackets"},
		{"name server with something behind the bracket", discover.SRVConfig{Name: "a", NameServer: "[::1]53"}, "unbalanced brackets"},
		{"name server with IPv4 in brackets", discover.SRVConfig{Name: "a", NameServer: "[10.0.0.1]"}, "no IPv6 address"},
		{"name server with garbage in brackets", discover.SRVConfig{Name: "a", NameServer: "[a:b]"}, "no IPv6 address"},
		{"name server with half an address", discover.SRVConfig{Name: "a", NameServer: "10.0.0"}, "IP address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resolver, err := discover.SRV(tt.config)
			if err == nil || !strings.Contains(err.Error(), tt.want) || resolver != nil {
				t.Errorf("SRV(%+v) = %v, %v; want an error with %q", tt.config, resolver, err, tt.want)
			}
			if err != nil && len(err.Error()) > 200 {
				t.Errorf("the error has %d bytes, want it bounded", len(err.Error()))
			}
		})
	}
}

func TestSRVTakesGoodConfigurations(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"10.0.0.1", "10.0.0.1:5353", "[::1]", "[::1]:53", "[fe80::1%eth0]:53", "dns", "dns.internal.:53", "dns_1"} {
		if _, err := discover.SRV(discover.SRVConfig{Name: "my_cluster.test.", NameServer: server}); err != nil {
			t.Errorf("name server %s: %v", server, err)
		}
	}
}

func TestSRVNameServerThatDoesNotExist(t *testing.T) {
	t.Parallel()
	resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: "ns." + strings.Repeat("a", 63) + ".invalid"})
	system := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	defer discover.SetNameServersResolverForTest(resolver, discover.SystemResolverForTest(system.Addr()))()
	_, err := resolver.Resolve(lateContext(t))
	failed := wantLookupError(t, err, discover.ErrServerFailed, "ns."+strings.Repeat("a", 63)+".invalid:53", "")
	if dnsErr, ok := errors.AsType[*net.DNSError](failed); !ok || !dnsErr.IsNotFound {
		t.Errorf("got %v, want the cause that its name does not exist", err)
	}
}

func TestSRVNameServerWhoseNameIsNotFoundInTime(t *testing.T) {
	t.Parallel()
	system := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	setFault(t, system, "ns.invalid", "", evenkeeltest.DNSFault{Silent: true})
	start := func(t *testing.T) discover.Resolver {
		t.Helper()
		resolver := newSRV(t, discover.SRVConfig{Name: name, NameServer: "ns.invalid"})
		t.Cleanup(discover.SetNameServersResolverForTest(resolver, discover.SystemResolverForTest(system.Addr())))
		t.Cleanup(discover.SetLimitsForTest(resolver, discover.LimitsForTest{Lookup: 150 * time.Millisecond}))
		return resolver
	}
	t.Run("within our limit", func(t *testing.T) {
		t.Parallel()
		_, err := start(t).Resolve(lateContext(t))
		_ = wantLookupError(t, err, discover.ErrTimeout, "ns.invalid:53", "")
		if errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "its own name") {
			t.Errorf("got %v, want that its own name was not found, and not the caller's deadline", err)
		}
	})
	t.Run("within the caller's deadline", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := start(t).Resolve(ctx)
		_ = wantLookupError(t, err, discover.ErrTimeout, "ns.invalid:53", "")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want context.DeadlineExceeded", err)
		}
	})
}

// FuzzNameServer configures any text as name server: no panic, and errors that do not grow with it.
func FuzzNameServer(f *testing.F) {
	for _, server := range []string{"10.0.0.1", "10.0.0.1:53", "[::1]:53", "[fe80::1%eth0]", "dns.test.:5353", "[", "]", ":", "[:]", "::1", "a:b:c"} {
		f.Add(server)
	}
	f.Fuzz(func(t *testing.T, server string) {
		resolver, err := discover.SRV(discover.SRVConfig{Name: name, NameServer: server})
		if (resolver == nil) != (err != nil) || err != nil && len(err.Error()) > 200 {
			t.Errorf("SRV = %v, %v", resolver, err)
		}
	})
}

func TestTargetsOutsideOfTheDomainAreLeftOutWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetSRV("_chronicle._tcp.prod.test",
		evenkeeltest.SRV{Target: "node1.PROD.test.", Port: 1}, evenkeeltest.SRV{Target: "prod.test", Port: 1},
		evenkeeltest.SRV{Target: "node1.evil.test", Port: 1}, evenkeeltest.SRV{Target: "evilprod.test", Port: 1},
		evenkeeltest.SRV{Target: "prod.test.evil.test", Port: 1}, evenkeeltest.SRV{Target: ".", Port: 1})
	for inDomain, want := range map[bool]int{true: 2, false: 5} {
		r := newSRV(t, discover.SRVConfig{Name: "prod.test", NameServer: dns.Addr(), TargetsInDomain: inDomain})
		found, err := r.Resolve(t.Context())
		partial, _ := errors.AsType[*discover.PartialError](err)
		if len(found) != want || inDomain != (partial != nil && partial.Dropped == 3) {
			t.Errorf("in the domain only: %v: found %q with %v, want %d", inDomain, lines(found), err, want)
		}
	}
}

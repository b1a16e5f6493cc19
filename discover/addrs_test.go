// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// filled makes a resolver of names and ports whose addresses a name server has.
func filled(dns *evenkeeltest.DNS, endpoints ...discover.Endpoint) discover.Resolver {
	return discover.WithAddrs(discover.AddrsConfig{
		Resolver: discover.Static(endpoints...), Name: "the source", System: discover.SystemResolverForTest(dns.Addr()),
	})
}

// at is an endpoint whose name has no search list.
func at(host string, port uint16, addrs ...string) discover.Endpoint {
	e := discover.Endpoint{Host: host, Port: port, Absolute: true}
	for _, addr := range addrs {
		e.Addrs = append(e.Addrs, netip.MustParseAddrPort(addr))
	}
	return e
}

// addrsOf shows the endpoints with their addresses.
func addrsOf(endpoints []discover.Endpoint) string {
	var shown []string
	for _, e := range endpoints {
		shown = append(shown, fmt.Sprintf("%v %v", e, e.Addrs))
	}
	return strings.Join(shown, ", ")
}

func TestAddressesAreFilledIn(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		endpoints []discover.Endpoint
		want      string
		faults    string // part of the error
	}{
		{"a name", []discover.Endpoint{at("a.test", 1)}, "a.test:1 [127.0.0.1:1 127.0.0.2:1]", ""},
		{"an address", []discover.Endpoint{at("127.0.0.9", 1)}, "127.0.0.9:1 [127.0.0.9:1]", ""},
		{"one that has its own", []discover.Endpoint{at("a.test", 1, "127.0.0.7:8")}, "a.test:1 [127.0.0.7:8]", ""},
		{
			"one name twice",
			[]discover.Endpoint{at("b.test", 1), at("b.test", 2)},
			"b.test:1 [127.0.0.3:1], b.test:2 [127.0.0.3:2]", "",
		},
		{
			"one that has none",
			[]discover.Endpoint{at("b.test", 1), at("none.test", 2)},
			"b.test:1 [127.0.0.3:1]", "none.test:2: lookup none.test",
		},
		{"addresses of no server", []discover.Endpoint{at("b.test", 1), at("sink.test", 2)}, "b.test:1 [127.0.0.3:1]", "it is left out"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
			dns.SetAddrs("a.test", addr("127.0.0.1"), addr("127.0.0.2"))
			dns.SetAddrs("b.test", addr("127.0.0.3"))
			dns.SetAddrs("sink.test", addr("0.0.0.0"))
			got, err := filled(dns, test.endpoints...).Resolve(lateContext(t))
			if addrsOf(got) != test.want {
				t.Errorf("got %s, want %s", addrsOf(got), test.want)
			}
			partial, isPartial := errors.AsType[*discover.PartialError](err)
			switch {
			case test.faults == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case test.faults != "" && (!isPartial || partial.Dropped != 1 || !strings.Contains(err.Error(), test.faults)):
				t.Errorf("got %v, want one left out: %s", err, test.faults)
			}
		})
	}
}

func TestEndpointsWithoutAnyAddressAreNone(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	got, err := filled(dns, at("a.test", 1), at("b.test", 1)).Resolve(lateContext(t))
	if len(got) != 0 || !errors.Is(err, discover.ErrNoRecords) || !strings.Contains(err.Error(), "the source") {
		t.Errorf("got %v, %v, want no endpoint, and an error of the source that matches ErrNoRecords", got, err)
	}
	broken := discover.WithAddrs(discover.AddrsConfig{Resolver: &scripted{answer: sequence(errSource)}})
	if got, err := broken.Resolve(lateContext(t)); len(got) != 0 || !errors.Is(err, errSource) {
		t.Errorf("got %v, %v, want the error of the source", got, err)
	}
}

// The addresses that one endpoint had were once added to those of its neighbour, again with every failure.
func TestAddressesOfASharedHostDoNotMultiply(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs("a.test", addr("127.0.0.1"), addr("127.0.0.2"))
	shared := filled(dns, at("a.test", 1), at("a.test", 2), at("a.test", 3))
	const want = "a.test:1 [127.0.0.1:1 127.0.0.2:1], a.test:2 [127.0.0.1:2 127.0.0.2:2], a.test:3 [127.0.0.1:3 127.0.0.2:3]"
	if got, err := shared.Resolve(lateContext(t)); addrsOf(got) != want || err != nil {
		t.Fatalf("got %s, %v, want %s", addrsOf(got), err, want)
	}
	for _, family := range []string{"A", "AAAA"} {
		setFault(t, dns, "a.test", family, evenkeeltest.DNSFault{Code: "REFUSED"})
	}
	for i := range 10 {
		got, err := shared.Resolve(lateContext(t))
		if addrsOf(got) != want {
			t.Fatalf("failure %d: got %.300s, want %s", i, addrsOf(got), want)
		}
		partial, ok := errors.AsType[*discover.PartialError](err)
		if !ok || partial.Dropped != 0 || !strings.Contains(err.Error(), "its earlier addresses are used") {
			t.Errorf("failure %d: got %v, want it to say what was used", i, err)
		}
	}
	dns.ClearFaults()
	dns.SetAddrs("a.test", addr("127.0.0.4"))
	if got, err := shared.Resolve(lateContext(t)); addrsOf(got) != "a.test:1 [127.0.0.4:1], a.test:2 [127.0.0.4:2], a.test:3 [127.0.0.4:3]" || err != nil {
		t.Errorf("got %s, %v, want the new address and nothing else", addrsOf(got), err)
	}
}

func TestANameIsLookedUpOnceForAllItsEndpoints(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs("a.test", addr("127.0.0.1"))
	many := make([]discover.Endpoint, 500)
	for i := range many {
		many[i] = at("a.test", uint16(1+i))
	}
	got, err := filled(dns, many...).Resolve(lateContext(t))
	if len(got) != len(many) || err != nil {
		t.Fatalf("got %d endpoints, %v, want %d", len(got), err, len(many))
	}
	if asked := dns.Count("a.test", "A"); asked > 2 { // one may be sent again when the machine is slow
		t.Errorf("asked %d times, want once", asked)
	}
}

func TestFillingAddressesEndsWithTheContext(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	setFault(t, dns, "", "", evenkeeltest.DNSFault{Silent: true})
	many := make([]discover.Endpoint, 40)
	for i := range many {
		many[i] = at(fmt.Sprintf("n%d.test", i), 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := filled(dns, many...).Resolve(ctx)
		ended <- err
	}()
	if err := dns.Wait(lateContext(t), "n0.test", "A", 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it cancelled", err)
	}
}

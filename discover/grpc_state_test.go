// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/discover"
)

// endpoint is one of grpc-go with the addresses, each "addr" or "addr name".
func endpoint(addresses ...string) resolver.Endpoint {
	var e resolver.Endpoint
	for _, a := range addresses {
		addr, name, _ := strings.Cut(a, " ")
		e.Addresses = append(e.Addresses, resolver.Address{Addr: addr, ServerName: name})
	}
	return e
}

func endpoints(all ...resolver.Endpoint) resolver.State { return resolver.State{Endpoints: all} }

func weighted(w uint32, address string) resolver.Endpoint {
	return weight.Set(endpoint(address), weight.EndpointInfo{Weight: w})
}

func TestEndpointsOfAGRPCState(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		state resolver.State
		want  []string
	}{
		{"IPv4", endpoints(endpoint("10.0.0.1:1")), []string{"0 0 10.0.0.1:1 [10.0.0.1:1]"}},
		{"IPv6", endpoints(endpoint("[2001:DB8::1]:1")), []string{"0 0 [2001:db8::1]:1 [[2001:db8::1]:1]"}},
		{"IPv6 with a zone", endpoints(endpoint("[fe80::1%eth0]:1")), []string{"0 0 [fe80::1%eth0]:1 [[fe80::1%eth0]:1]"}},
		{"IPv4 in IPv6", endpoints(endpoint("[::ffff:10.0.0.1]:1")), []string{"0 0 10.0.0.1:1 [10.0.0.1:1]"}},
		{"a name", endpoints(endpoint("Node_1.Test:1")), []string{"0 0 node_1.test:1"}},
		{"no host", endpoints(endpoint(":1")), []string{"0 0 localhost:1"}},
		{"several addresses", endpoints(endpoint("[2001:db8::1]:1", "10.0.0.1:2")), []string{"0 0 [2001:db8::1]:1 [[2001:db8::1]:1 10.0.0.1:2]"}},
		{"ServerName", endpoints(endpoint("10.0.0.1:1 Node1.test.")), []string{"0 0 node1.test:1 [10.0.0.1:1]"}},
		{"ServerName with a port", endpoints(endpoint("10.0.0.1:1 node1.test:443")), []string{"0 0 node1.test:1 [10.0.0.1:1]"}},
		{"IPv6 as ServerName", endpoints(endpoint("10.0.0.1:1 [::1]"), endpoint("10.0.0.2:2 ::1")), []string{"0 0 [::1]:1 [10.0.0.1:1]", "0 0 [::1]:2 [10.0.0.2:2]"}},
		{"ServerName beside a name", endpoints(endpoint("node1.test:1 cluster.test")), []string{"0 0 node1.test:1"}},
		{
			"ServerName of several servers", endpoints(endpoint("10.0.0.1:1 c.test"), endpoint("10.0.0.2:1 c.test"), endpoint("10.0.0.3:2 c.test")),
			[]string{"0 0 10.0.0.1:1 [10.0.0.1:1]", "0 0 10.0.0.2:1 [10.0.0.2:1]", "0 0 c.test:2 [10.0.0.3:2]"},
		},
		{
			"ServerName that is another server's host", endpoints(endpoint("10.0.0.1:1 c.test"), endpoint("c.test:1")),
			[]string{"0 0 10.0.0.1:1 [10.0.0.1:1]", "0 0 c.test:1"},
		},
		{
			"the same twice", endpoints(endpoint("10.0.0.1:1"), endpoint("10.0.0.2:1"), endpoint("10.0.0.1:1")),
			[]string{"0 0 10.0.0.1:1 [10.0.0.1:1]", "0 0 10.0.0.2:1 [10.0.0.2:1]"},
		},
		{
			"addresses outside endpoints",
			resolver.State{Addresses: endpoint("10.0.0.2:1", "10.0.0.1:1 n.test").Addresses},
			[]string{"0 0 10.0.0.2:1 [10.0.0.2:1]", "0 0 n.test:1 [10.0.0.1:1]"},
		},
		{
			"both",
			resolver.State{Addresses: endpoint("10.0.0.9:1").Addresses, Endpoints: []resolver.Endpoint{endpoint("10.0.0.1:1")}},
			[]string{"0 0 10.0.0.1:1 [10.0.0.1:1]"},
		},
		{
			"weights", endpoints(weighted(3, "10.0.0.1:1"), endpoint("10.0.0.2:1"), weighted(65535, "10.0.0.3:1")),
			[]string{"0 3 10.0.0.1:1 [10.0.0.1:1]", "0 1 10.0.0.2:1 [10.0.0.2:1]", "0 65535 10.0.0.3:1 [10.0.0.3:1]"},
		},
		{
			"weights beyond 16 bits", endpoints(weighted(1<<32-1, "10.0.0.1:1"), weighted(1<<31, "10.0.0.2:1"), weighted(1, "10.0.0.3:1")),
			[]string{"0 65535 10.0.0.1:1 [10.0.0.1:1]", "0 32767 10.0.0.2:1 [10.0.0.2:1]", "0 1 10.0.0.3:1 [10.0.0.3:1]"},
		},
		{"weight of an address", resolver.State{Addresses: []resolver.Address{
			{Addr: "10.0.0.1:1", BalancerAttributes: weighted(7, "").Attributes},
		}}, []string{"0 7 10.0.0.1:1 [10.0.0.1:1]"}},
		{"nothing", resolver.State{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := discover.FromStateForTest(tt.state)
			if diff := cmp.Diff(tt.want, lines(got)); diff != "" || err != nil {
				t.Errorf("err %v, endpoints (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestWhatAGRPCStateHasTooMuch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		given resolver.Endpoint
		want  []string
		fault string
	}{
		{"a path", endpoint("/run/socket"), nil, "address 1: it is not of the form host:port"},
		{"a unix socket", endpoint("unix:/run/socket"), nil, "address 1: it has a port that is not a number"},
		{"no port", endpoint("node1.test"), nil, "host:port"},
		{"bare IPv6", endpoint("2001:db8::1:1"), nil, "IPv6 in brackets"},
		{"port 0", endpoint("10.0.0.1:0"), nil, "1 to 65535"},
		{"port beyond 65535", endpoint("10.0.0.1:65536"), nil, "1 to 65535"},
		{"a named port", endpoint("10.0.0.1:https"), nil, "1 to 65535"},
		{"a name that is none", endpoint("a..b:1"), nil, "its host has an empty label"},
		{"a ServerName that is none", endpoint("10.0.0.1:1 a/b"), nil, "its ServerName has the character '/'"},
		{"names beside an address", endpoint("a.test:1", "10.0.0.1:1", "b.test:1"), []string{"0 0 10.0.0.1:1 [10.0.0.1:1]"}, "address 1: it is a name"},
		{"several names", endpoint("a.test:1", "b.test:1"), []string{"0 0 a.test:1"}, "address 2: it is a name"},
		{"several ServerNames", endpoint("10.0.0.1:1 a.test", "10.0.0.2:1 b.test"), []string{"0 0 a.test:1 [10.0.0.1:1]"}, "address 2: its ServerName"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := discover.FromStateForTest(endpoints(endpoint("10.9.9.9:9"), tt.given))
			want := append([]string{"0 0 10.9.9.9:9 [10.9.9.9:9]"}, tt.want...)
			if diff := cmp.Diff(want, lines(got)); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
			partial, ok := errors.AsType[*discover.PartialError](err)
			if !ok || partial.Name != "test:///x" || partial.Server != "" {
				t.Fatalf("got %v, want a *PartialError of the source", err)
			}
			if text := err.Error(); !strings.Contains(text, tt.fault) || !strings.Contains(text, "endpoint 2") || strings.Contains(text, "/run") {
				t.Errorf("got %q, want %q of endpoint 2, and no address", text, tt.fault)
			}
		})
	}
}

func TestAGRPCStateHoldsItsFaultsWithinBounds(t *testing.T) {
	t.Parallel()
	var state resolver.State
	for i := range 1000 {
		state.Endpoints = append(state.Endpoints, endpoint(fmt.Sprintf("/run/%d", i)))
	}
	_, err := discover.FromStateForTest(state)
	partial, ok := errors.AsType[*discover.PartialError](err)
	if !ok || partial.Dropped != 1000 || len(partial.Faults) != 16 {
		t.Fatalf("got %v, want 1000 left out and 16 faults", err)
	}
}

// An absolute name is looked up without a search list.
func TestAGRPCStateWithAnAbsoluteName(t *testing.T) {
	t.Parallel()
	got, err := discover.FromStateForTest(endpoints(endpoint("node1.test.:1"), endpoint("node2.test:1"), endpoint("10.0.0.1:1 node3.test.")))
	if err != nil || len(got) != 3 {
		t.Fatalf("got %v, %v; want three endpoints", got, err)
	}
	for i, want := range []string{"node1.test.", "node2.test", "node3.test"} {
		if got := got[i].LookupName(); got != want {
			t.Errorf("endpoint %d: got %q, want %q", i, got, want)
		}
	}
}

// Whatever a resolver says, an endpoint can be dialled, no two are the same server, and the text of what is left out
// has no address in it.
func FuzzGRPCState(f *testing.F) {
	f.Add("10.0.0.1:1", "n.test", "[::1]:2", "", uint32(0))
	f.Add("a.test.:1", "a.test:443", "10.0.0.1:1", "b.test", uint32(70000))
	f.Add("/run/x", "", "10.0.0.1:65536", "[::1]", uint32(1))
	f.Add(":1", "..", "::1", "[", uint32(1<<32-1))
	f.Add("[fe80::1%eth0]:1", "%", "[::ffff:1.2.3.4]:1", "]", uint32(9))
	f.Fuzz(func(t *testing.T, addr1, name1, addr2, name2 string, w uint32) {
		a, b := resolver.Address{Addr: addr1, ServerName: name1}, resolver.Address{Addr: addr2, ServerName: name2}
		heavy := weight.Set(resolver.Endpoint{Addresses: []resolver.Address{b}}, weight.EndpointInfo{Weight: w})
		got, err := discover.FromStateForTest(resolver.State{Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{a, b}}, heavy}})
		if len(got) == 0 && err == nil {
			t.Error("neither endpoints nor an error")
		}
		seen := make(map[string]bool)
		for _, e := range got {
			if e.Host == "" || e.Port == 0 || seen[e.Addr()] {
				t.Errorf("got %+v among %v", e, got)
			}
			seen[e.Addr()] = true
			for _, addr := range e.Addrs {
				if !addr.IsValid() || addr.Port() == 0 {
					t.Errorf("got address %v", addr)
				}
			}
			if (e.Weight == 0) != (w == 0) && len(got) == 2 {
				t.Errorf("got weight %d beside %d", e.Weight, w)
			}
		}
		if len(got) == 0 {
			return
		}
		// What comes back from a state of ours is what went in, save a zone, which no ServerName has.
		again, err := discover.FromStateForTest(discover.ToStateForTest(got))
		if diff := cmp.Diff(lines(got), lines(again)); !strings.Contains(diff, "%") && (diff != "" || err != nil) {
			t.Errorf("there and back: err %v, endpoints (-want +got):\n%s", err, diff)
		}
	})
}

// Endpoints that share a ServerName keep the hosts of their addresses, and TLS checks the name all the same.
func TestTheNameThatAGRPCStateWantsVerified(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		state resolver.State
		want  []string
	}{
		{"none", endpoints(endpoint("10.0.0.1:1"), endpoint("fe.test:1")), []string{"10.0.0.1", "fe.test"}},
		{"of one server", endpoints(endpoint("10.0.0.1:1 c.test")), []string{"c.test"}},
		{"of several", endpoints(endpoint("10.0.0.1:1 c.test"), endpoint("10.0.0.2:1 c.test")), []string{"c.test", "c.test"}},
		{"of a name", endpoints(endpoint("node1.test:1 c.test")), []string{"c.test"}},
		{"of several names", endpoints(endpoint("a.test:1 c.test"), endpoint("b.test:1 c.test")), []string{"c.test", "c.test"}},
		{"that is another server's host", endpoints(endpoint("10.0.0.1:1 c.test"), endpoint("c.test:1")), []string{"c.test", "c.test"}},
		{"with a zone", endpoints(endpoint("[fe80::1%eth0]:1")), []string{"fe80::1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := discover.FromStateForTest(tt.state)
			var names []string
			for _, e := range got {
				names = append(names, e.VerifyName())
			}
			if diff := cmp.Diff(tt.want, names); diff != "" || err != nil {
				t.Errorf("err %v, names (-want +got):\n%s", err, diff)
			}
		})
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
	"github.com/evenkeel-go/evenkeel/discover"
)

// weightScale is what weight 1 is given, so that weight 0 beside it can be a tenth.
const weightScale = 10

// shape says what a state is made for.
type shape struct {
	// named: the endpoints have names of their own, which TLS checks.
	named bool
	// backups: the policy knows priorities. Other policies are given the endpoints of the lowest number alone.
	backups bool
}

// toState makes a state of endpoints, in their order.
func (s shape) toState(endpoints []discover.Endpoint) resolver.State {
	first := slices.MinFunc(endpoints, func(a, b discover.Endpoint) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
	weighted := slices.ContainsFunc(endpoints, func(e discover.Endpoint) bool { return e.Weight > 0 })
	var state resolver.State
	for _, e := range endpoints {
		if e.Priority != first && !s.backups {
			continue
		}
		given := resolver.Endpoint{Addresses: s.toAddresses(e)}
		if weighted {
			given = weight.Set(given, weight.EndpointInfo{Weight: max(1, weightScale*uint32(e.Weight))})
		}
		if e.Priority != first {
			given = policy.SetPriority(given, e.Priority-first)
		}
		state.Endpoints = append(state.Endpoints, given)
		state.Addresses = append(state.Addresses, given.Addresses...) // for policies from before there were endpoints
	}
	return state
}

// hasBackups says whether there is more than one priority.
func hasBackups(endpoints []discover.Endpoint) bool {
	return slices.ContainsFunc(endpoints, func(e discover.Endpoint) bool { return e.Priority != endpoints[0].Priority })
}

func (s shape) toAddresses(e discover.Endpoint) []resolver.Address {
	name := ""
	if s.named {
		if name = e.VerifyName(); strings.Contains(name, ":") {
			name = "[" + name + "]" // it becomes the authority of calls as well
		}
	}
	if len(e.Addrs) == 0 { // a user's own source may leave looking up to grpc-go
		return []resolver.Address{{Addr: net.JoinHostPort(e.LookupName(), strconv.Itoa(int(e.Port))), ServerName: name}}
	}
	addresses := make([]resolver.Address, len(e.Addrs))
	for i, addr := range e.Addrs {
		addresses[i] = resolver.Address{Addr: addr.String(), ServerName: name}
	}
	return addresses
}

// index holds a set of endpoints by what makes them the same server: its name and where it is.
type index map[string]discover.Endpoint

func newIndex(endpoints []discover.Endpoint) index {
	in := make(index, len(endpoints))
	for _, e := range endpoints {
		in[endpointKey(e)] = e
	}
	return in
}

func endpointKey(e discover.Endpoint) string {
	sorted := e.Addrs
	if !slices.IsSortedFunc(sorted, netip.AddrPort.Compare) {
		sorted = slices.SortedFunc(slices.Values(sorted), netip.AddrPort.Compare)
	}
	key := []byte(e.Addr())
	for _, addr := range sorted {
		key = addr.AppendTo(append(key, ' '))
	}
	return string(key)
}

// change compares two sets. The second result says whether they differ in anything that counts, which their order and
// that of their addresses do not.
func (in index) change(next index) (Change, bool) {
	var c Change
	differs := false
	for key, e := range next {
		old, kept := in[key]
		if !kept {
			c.Added = append(c.Added, e)
			continue
		}
		c.Kept = append(c.Kept, e)
		differs = differs || old.Priority != e.Priority || old.Weight != e.Weight || old.ServerName != e.ServerName
	}
	for key, e := range in {
		if _, kept := next[key]; !kept {
			c.Removed = append(c.Removed, e)
		}
	}
	for _, endpoints := range [][]discover.Endpoint{c.Added, c.Removed, c.Kept} {
		slices.SortFunc(endpoints, func(a, b discover.Endpoint) int { return cmp.Compare(a.Addr(), b.Addr()) })
	}
	return c, differs || len(c.Added) > 0 || len(c.Removed) > 0
}

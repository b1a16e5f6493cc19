// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sync/errgroup"
)

// addressQueries bounds how many address queries are under way at once.
const addressQueries = 16

// addrsOf asks the name server that gave the endpoints for the addresses of their hosts, all within limit. Hosts for
// which it has no answer in time have none, which is no failure: the system is asked when they are dialled.
func (a *asker) addrsOf(ctx context.Context, server string, endpoints []Endpoint, limit time.Duration) map[string][]netip.Addr {
	addrPort, err := netip.ParseAddrPort(server)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return a.lookUpHosts(ctx, addrPort, endpoints)
}

// fillAddrs gives endpoints the addresses of their hosts.
func fillAddrs(endpoints []Endpoint, addrs map[string][]netip.Addr) {
	for i, endpoint := range endpoints {
		for _, addr := range addrs[endpoint.Host] {
			endpoints[i].Addrs = append(endpoints[i].Addrs, netip.AddrPortFrom(addr, endpoint.Port))
		}
	}
}

// lookUpHosts returns the addresses of each host, IPv6 first, in the order of the answers: the dialer tries both
// families (RFC 8305), and the order of a family is the name server's to rotate.
func (a *asker) lookUpHosts(ctx context.Context, server netip.AddrPort, endpoints []Endpoint) map[string][]netip.Addr {
	type host struct{ v6, v4 []netip.Addr }
	hosts := make(map[string]*host)
	var group errgroup.Group
	group.SetLimit(addressQueries)
	for _, endpoint := range endpoints {
		if hosts[endpoint.Host] != nil {
			continue
		}
		h := new(host)
		hosts[endpoint.Host] = h
		group.Go(func() error {
			h.v6 = a.lookUpHost(ctx, server, endpoint.Host, dnsmessage.TypeAAAA)
			return nil
		})
		group.Go(func() error {
			h.v4 = a.lookUpHost(ctx, server, endpoint.Host, dnsmessage.TypeA)
			return nil
		})
	}
	_ = group.Wait() // no query returns an error
	found := make(map[string][]netip.Addr, len(hosts))
	for name, h := range hosts {
		found[name] = append(h.v6, h.v4...)
	}
	return found
}

// lookUpHost returns the addresses of one family, none when the lookup fails.
func (a *asker) lookUpHost(ctx context.Context, server netip.AddrPort, host string, kind dnsmessage.Type) []netip.Addr {
	if ctx.Err() != nil {
		return nil
	}
	o := a.ask(ctx, []netip.AddrPort{server}, question(host, kind))
	if !o.answers() {
		return nil
	}
	answer, err := parseReply(o.msg, kind)
	if err != nil {
		return nil
	}
	return addresses(&answer, host, kind)
}

// addresses returns the addresses in an answer, each once. Unspecified and multicast ones are no server's: dialling
// 0.0.0.0, which some filtering name servers answer, would reach this machine.
func addresses(answer *reply, host string, kind dnsmessage.Type) []netip.Addr {
	records, _ := answer.chosen(host, kind)
	var found []netip.Addr
	for _, rec := range records {
		if !rec.addr.IsUnspecified() && !rec.addr.IsMulticast() && !slices.Contains(found, rec.addr) {
			found = append(found, rec.addr)
		}
	}
	return found
}

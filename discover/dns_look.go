// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// look asks for both families at once.
func (d *DNS) look(ctx context.Context) dnsAnswer {
	if d.asker == nil {
		return d.askSystem(ctx)
	}
	servers, err := d.asker.addresses(ctx)
	if err != nil {
		return dnsAnswer{unfound: err}
	}
	answer := dnsAnswer{owner: strings.TrimSuffix(d.name, ".")}
	var asking sync.WaitGroup
	for i, kind := range families() {
		asking.Go(func() { answer.outcomes[i] = d.asker.ask(ctx, servers, question(answer.owner, kind)) })
	}
	asking.Wait()
	return answer
}

// errUnanswered is why there is no reply where net.Resolver does not say.
var errUnanswered = errors.New("the question was not answered")

// askSystem asks as net.Resolver does: the hosts file, then name by name of the search list. Of its result only addresses
// from the hosts file are used: the recorder has what the servers said.
func (d *DNS) askSystem(ctx context.Context) dnsAnswer {
	record := &recorder{dial: d.dial}
	resolver := net.Resolver{PreferGo: true, Dial: record.dialServer}
	found, err := resolver.LookupIPAddr(ctx, d.name) // LookupNetIP would lose zones
	names := record.names()
	if len(names) == 0 && err == nil {
		return dnsAnswer{hosts: hostAddrs(found)}
	}
	if err == nil {
		err = errUnanswered // for the family that it is about; the other one was answered
	}
	answer := dnsAnswer{owner: canonical(d.name)}
	if len(names) == 0 {
		lost := record.outcome(err)
		answer.outcomes = [2]outcome{lost, lost}
		return answer
	}
	for _, name := range d.byImportance(names) {
		answer = d.recorded(record, name, err)
		if answer.serves() {
			break
		}
	}
	return answer
}

// byImportance sorts the names that were asked for by whose answer counts: net.Resolver takes the first one that has
// addresses, and where none has any the name as it was given says why.
func (d *DNS) byImportance(names []dnsmessage.Name) []dnsmessage.Name {
	own := slices.IndexFunc(names, func(name dnsmessage.Name) bool { return canonical(name.String()) == canonical(d.name) })
	if own >= 0 {
		names = append(names, names[own])
	}
	return names
}

// recorded is what the servers said about one name.
func (*DNS) recorded(record *recorder, name dnsmessage.Name, err error) dnsAnswer {
	answer := dnsAnswer{owner: canonical(name.String())}
	for i, kind := range families() {
		answer.outcomes[i] = record.outcomeOf(dnsmessage.Question{Name: name, Type: kind, Class: dnsmessage.ClassINET}, err)
	}
	return answer
}

// serves says whether an answer has addresses.
func (a dnsAnswer) serves() bool {
	for i, kind := range families() {
		if o := a.outcomes[i]; o.answers() {
			if answer, err := parseReply(o.msg, kind); err == nil && len(addresses(&answer, a.owner, kind)) > 0 {
				return true
			}
		}
	}
	return false
}

// hostAddrs are the addresses of the hosts file, IPv6 first as elsewhere.
func hostAddrs(found []net.IPAddr) []netip.Addr {
	var addrs []netip.Addr
	for _, ip := range found {
		if addr, ok := netip.AddrFromSlice(ip.IP); ok {
			if addr = addr.Unmap().WithZone(ip.Zone); !slices.Contains(addrs, addr) {
				addrs = append(addrs, addr)
			}
		}
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return compareBool(a.Is4(), b.Is4()) })
	return addrs
}

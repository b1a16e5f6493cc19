// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// LimitsForTest are the waits of an SRV resolver; zero leaves one as it is.
type LimitsForTest struct {
	Lookup, Addresses, Resend time.Duration
}

// SetLimitsForTest shortens the waits of a resolver that SRV made, which nobody may be using.
func SetLimitsForTest(resolver Resolver, limits LimitsForTest) (restore func()) {
	r := resolver.(*srvResolver)
	old := *r
	if limits.Lookup > 0 {
		r.lookupLimit = limits.Lookup
	}
	if limits.Addresses > 0 {
		r.addressLimit = limits.Addresses
	}
	if limits.Resend > 0 && r.asker != nil {
		asker := *r.asker
		asker.resend = limits.Resend
		r.asker = &asker
	}
	return func() { *r = old }
}

// RedirectSystemForTest makes a resolver that SRV or NewDNS made take the given servers, in turn, for those of the system.
func RedirectSystemForTest(resolver Resolver, servers ...string) (restore func()) {
	if d, ok := resolver.(*DNS); ok {
		dial, flights := d.dial, d.flights
		d.dial, d.flights = redirect(servers), newFlights()
		return func() { d.dial, d.flights = dial, flights }
	}
	r := resolver.(*srvResolver)
	old := *r
	r.dial, r.flights = redirect(servers), newFlights()
	return func() { *r = old }
}

// SystemResolverForTest is SystemResolver with other servers than those of the system.
func SystemResolverForTest(servers ...string) *net.Resolver {
	return systemResolver(redirect(servers))
}

// redirect gives each exchange to the next server; the retry over TCP goes where the UDP exchange went.
func redirect(servers []string) dialFunc {
	var exchanges atomic.Int64
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		turn := exchanges.Load() - 1
		if network == "udp" || turn < 0 {
			turn = exchanges.Add(1) - 1
		}
		return dialServer(ctx, network, servers[int(turn)%len(servers)])
	}
}

// JudgeForTest makes endpoints of a reply to a question for the SRV records of "_chronicle._tcp.x.test".
func JudgeForTest(msg []byte) ([]Endpoint, error) {
	r := &srvResolver{owner: "_chronicle._tcp.x.test"}
	return r.judge(context.Background(), outcome{server: "192.0.2.1:53", msg: msg})
}

// ReadForTest reads a message as a reply to a query with the id 7 and as one with addresses.
func ReadForTest(msg []byte) (isReply bool, addrs []netip.Addr) {
	const name = "_chronicle._tcp.x.test"
	isReply = belongs(msg, 7, question(name, dnsmessage.TypeSRV)) == ours
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		if answer, err := parseReply(msg, kind); err == nil {
			addrs = append(addrs, addresses(&answer, name, kind)...)
		}
	}
	return isReply, addrs
}

// CheckNameForTest is checkName.
func CheckNameForTest(name string) error { return checkName(name) }

// SetNameServersResolverForTest sets what looks up the name of the name server of a resolver that SRV made.
func SetNameServersResolverForTest(resolver Resolver, system *net.Resolver) (restore func()) {
	r := resolver.(*srvResolver)
	old := *r
	asker := *r.asker
	asker.system = system
	r.asker, r.flights = &asker, newFlights()
	return func() { *r = old }
}

// StartPollerForTest is NewPoller with another source of randomness, for a configuration without faults.
func StartPollerForTest(config PollerConfig, random func() float64) *Poller {
	return startPoller(config.withDefaults(), random)
}

// FlightsForTest is a place where lookups meet.
type FlightsForTest = flights

// NewFlightsForTest returns one.
func NewFlightsForTest() *FlightsForTest { return newFlights() }

// ShareFlightsForTest makes a resolver that SRV or NewDNS made look there.
func ShareFlightsForTest(resolver Resolver, group *FlightsForTest) {
	switch r := resolver.(type) {
	case *DNS:
		r.flights = group
	case *srvResolver:
		r.flights = group
	}
}

// AwaitWaitersForTest returns when as many wait for the answer to the question of a resolver, or when ctx is done.
func AwaitWaitersForTest(ctx context.Context, resolver Resolver, waiters int) {
	var group *flights
	var question string
	switch r := resolver.(type) {
	case *DNS:
		group, question = r.flights, r.question
	case *srvResolver:
		group, question = r.flights, r.question
	}
	for ctx.Err() == nil {
		group.mu.Lock()
		running := group.running[question]
		there := running != nil && running.waiters >= waiters
		group.mu.Unlock()
		if there {
			return
		}
		runtime.Gosched()
	}
}

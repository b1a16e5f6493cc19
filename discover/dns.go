// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// DefaultPort is the port of endpoints when DNSConfig gives none: that of HTTPS, as grpc-go has it.
const DefaultPort = 443

// DNSConfig says whose addresses are the servers.
type DNSConfig struct {
	// Name is the host name; required. With a final dot it is absolute. Without one the search list of the system
	// applies, as it does everywhere; at a NameServer every name is absolute. An IP address, IPv6 without brackets and
	// with or without a zone, stands for itself and nothing is asked.
	Name string
	// Port is the port of the servers; 0 means DefaultPort.
	Port uint16
	// NameServer is the name server to ask, host[:port], with IPv6 in brackets and port 53 unless said; empty means
	// those of the system, and its hosts file. A host name is looked up by the system on every lookup.
	NameServer string
	// Timeout ends a lookup; 0 means 5 s.
	Timeout time.Duration
}

// DNS is a Resolver that looks up the addresses of a name afresh on every Resolve.
//
// Every address is an endpoint, A and AAAA records united, IPv6 first and otherwise in the order of the answers, each
// once. Host is the address then, so that endpoints can be told apart, and ServerName is the name, which TLS verifies. A
// name with exactly one A and one AAAA record is one server that both reach: one endpoint whose Host is the name.
// Unspecified and multicast addresses are left out.
//
// When the records of one family cannot be looked up and the others can, the endpoints come with a *[PartialError];
// the addresses of the failed family that an earlier lookup found stay among them. Otherwise, without an endpoint,
// Resolve returns a *[LookupError]: with ErrNoSuchName or ErrNoRecords only when the answers for both families say so.
//
// Lookups of one question that are under way at the same time are one, in the whole process. Resolve ends as soon as its
// context does. A DNS is safe for concurrent use and needs no closing.
type DNS struct {
	name     string     // as asked: canonical, with a final dot when it is absolute
	port     uint16     // of all endpoints
	question string     // what distinguishes it in flights
	literal  netip.Addr // the zero value when name is a name
	asker    *asker     // nil to ask the name servers of the system
	dial     dialFunc   // reaches those
	timeout  time.Duration
	flights  *flights

	mu     sync.Mutex
	latest [2][]netip.Addr // guarded by mu; what was found last, by family; replaced, never written to
}

// families are what is asked for, in the order of preference.
func families() [2]dnsmessage.Type { return [2]dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeA} }

// familyName is how errors call a family.
func familyName(kind dnsmessage.Type) string { return strings.TrimPrefix(kind.String(), "Type") }

const bothFamilies = "A and AAAA"

// NewDNS returns a resolver of the addresses of a name. It asks nothing. The error says what is wrong with the
// configuration.
func NewDNS(config DNSConfig) (*DNS, error) {
	if config.Timeout < 0 {
		return nil, errors.New("discover: the timeout of a DNS lookup is negative")
	}
	d := &DNS{port: config.Port, timeout: config.Timeout, dial: dialServer, flights: process}
	if d.port == 0 {
		d.port = DefaultPort
	}
	if d.timeout == 0 {
		d.timeout = lookupLimit
	}
	if addr, err := netip.ParseAddr(config.Name); err == nil {
		d.name, d.literal = addr.Unmap().String(), addr.Unmap()
	} else {
		d.name = canonical(config.Name)
		if err := checkName(d.name); err != nil {
			return nil, fmt.Errorf("discover: the name of a DNS lookup %w", err)
		}
		if strings.HasSuffix(config.Name, ".") {
			d.name += "."
		}
	}
	d.question = fmt.Sprintf("A %s in %v", d.name, d.timeout)
	if config.NameServer == "" {
		return d, nil
	}
	server, err := parseNameServer(config.NameServer)
	if err != nil {
		return nil, fmt.Errorf("discover: the name server of a DNS lookup %w", err)
	}
	d.asker = &asker{server: server, system: SystemResolver(), resend: resendAfter}
	d.question += " at " + server.String()
	return d, nil
}

// String returns the target as grpc-go would have it: "dns:///name:port", or "dns://server:port/name:port".
func (d *DNS) String() string {
	server := ""
	if d.asker != nil {
		server = d.asker.server.String()
	}
	return "dns://" + server + "/" + net.JoinHostPort(d.name, strconv.Itoa(int(d.port)))
}

// Resolve implements Resolver.
func (d *DNS) Resolve(ctx context.Context) ([]Endpoint, error) {
	if ctx.Err() != nil {
		return nil, d.subject(bothFamilies).failure(ctx, outcome{})
	}
	if d.literal.IsValid() {
		return []Endpoint{{Host: d.name, Port: d.port}}, nil
	}
	limited, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	answer, came := share(limited, d.flights, d.question, d.look)
	switch {
	case !came:
		return nil, d.subject(bothFamilies).failure(ctx, d.asker.left())
	case answer.unfound != nil:
		return nil, d.subject(bothFamilies).serverUnknown(ctx, d.asker.server.String(), overdue(limited, answer.unfound))
	case len(answer.hosts) > 0:
		return d.endpoints(answer.hosts), nil
	}
	for i, o := range answer.outcomes {
		if o.msg == nil {
			answer.outcomes[i].err = overdue(limited, o.err)
		}
	}
	return d.unite(d.judge(ctx, answer))
}

func (d *DNS) subject(kind string) subject {
	return subject{name: strings.TrimSuffix(d.name, "."), kind: kind}
}

// dnsAnswer is what a lookup brought, which several may share.
type dnsAnswer struct {
	owner    string       // the name that decided, canonical
	outcomes [2]outcome   // by family
	hosts    []netip.Addr // from the hosts file, which goes before all else
	unfound  error        // why the name server's own name was not found
}

// half is what is known of one family.
type half struct {
	addrs   []netip.Addr
	server  string
	failure error // a *LookupError; nil when there are addresses
	partial error
}

// judge makes addresses or errors of the two outcomes. The context is the caller's.
func (d *DNS) judge(ctx context.Context, answer dnsAnswer) (halves [2]half) {
	for i, kind := range families() {
		halves[i] = d.judgeOne(ctx, answer.outcomes[i], answer.owner, kind)
	}
	return halves
}

func (d *DNS) judgeOne(ctx context.Context, o outcome, owner string, kind dnsmessage.Type) half {
	s := d.subject(familyName(kind))
	answer, err := s.read(ctx, o, kind)
	if err != nil {
		return half{server: o.server, failure: err}
	}
	_, faults := answer.chosen(owner, kind)
	h := half{server: o.server, addrs: addresses(&answer, owner, kind), partial: s.partial(o.server, faults)}
	if len(h.addrs) == 0 {
		h.failure = s.failed(o, answer.code, ErrNoRecords, h.partial)
	}
	return h
}

// denied says that a family has no addresses, rather than that they could not be looked up.
func (h half) denied() bool {
	return errors.Is(h.failure, ErrNoSuchName) || errors.Is(h.failure, ErrNoRecords)
}

// unite makes endpoints of both families, or an error when neither has any.
func (d *DNS) unite(halves [2]half) ([]Endpoint, error) {
	if len(halves[0].addrs)+len(halves[1].addrs) == 0 {
		return nil, d.worst(halves)
	}
	var addrs []netip.Addr
	partial := &PartialError{Name: d.subject("").name, Type: bothFamilies}
	for i, kept := range d.remember(halves) {
		h := halves[i]
		for _, addr := range kept {
			if !slices.Contains(addrs, addr) {
				addrs = append(addrs, addr)
			}
		}
		if h.failure != nil && !h.denied() {
			partial.Server, partial.Faults = h.server, append(partial.Faults, h.failure)
		}
		if p, ok := errors.AsType[*PartialError](h.partial); ok {
			partial.Server, partial.Dropped = h.server, partial.Dropped+p.Dropped
			partial.Faults = append(partial.Faults, p.Faults...)
		}
	}
	if len(partial.Faults) == 0 {
		return d.endpoints(addrs), nil
	}
	partial.Faults = partial.Faults[:min(len(partial.Faults), maxFaults)]
	return d.endpoints(addrs), partial
}

// remember returns the addresses of each family: what was found now, or else earlier when the lookup failed. A name
// server that drops one of two questions must not take half of the servers away.
func (d *DNS) remember(halves [2]half) [2][]netip.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, h := range halves {
		if h.failure == nil || h.denied() {
			d.latest[i] = h.addrs
		}
	}
	return d.latest
}

// worst is the error of a lookup without addresses: what failed hides more than what was denied, and a name that does
// not exist is the same for both families.
func (d *DNS) worst(halves [2]half) error {
	v6, v4 := halves[0].failure, halves[1].failure
	switch {
	case !halves[1].denied():
		return v4
	case !halves[0].denied():
		return v6
	}
	told, ok := errors.AsType[*LookupError](v4)
	if !ok {
		return v4
	}
	if errors.Is(v6, ErrNoRecords) && errors.Is(v4, ErrNoSuchName) {
		// The name exists for one family: it exists.
		if other, ok := errors.AsType[*LookupError](v6); ok {
			told = other
		}
	}
	both := *told
	both.Type = bothFamilies
	return &both
}

// endpoints makes endpoints of addresses, as DNS says.
func (d *DNS) endpoints(addrs []netip.Addr) []Endpoint {
	name := strings.TrimSuffix(d.name, ".")
	if len(addrs) == 2 && addrs[0].Is4() != addrs[1].Is4() {
		return []Endpoint{{
			Host: name, Port: d.port, Absolute: name != d.name,
			Addrs: []netip.AddrPort{netip.AddrPortFrom(addrs[0], d.port), netip.AddrPortFrom(addrs[1], d.port)},
		}}
	}
	endpoints := make([]Endpoint, len(addrs))
	for i, addr := range addrs {
		endpoints[i] = Endpoint{
			Host: addr.String(), Port: d.port, ServerName: name, Addrs: []netip.AddrPort{netip.AddrPortFrom(addr, d.port)},
		}
	}
	return endpoints
}

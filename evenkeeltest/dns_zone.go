// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const (
	// dnsTTL is what records say about how long they may be kept.
	dnsTTL = 5
	// dnsMaxAliases bounds how many CNAMEs are followed for one question.
	dnsMaxAliases = 8
)

// SRV is one SRV record of a name.
type SRV struct {
	// Target is the host, with or without a final dot; "." says that the service is not there.
	Target string
	// Port is the port of the service.
	Port uint16
	// Priority and Weight are those of RFC 2782.
	Priority, Weight uint16
}

// SetSRV replaces the SRV records of a name, such as "_chronicle._tcp.cluster.test"; without records it removes them.
func (d *DNS) SetSRV(name string, records ...SRV) {
	rrs := make([]dns.RR, 0, len(records))
	for _, r := range records {
		rrs = append(rrs, &dns.SRV{
			Hdr:      dnsHeader(name, dns.TypeSRV),
			Priority: r.Priority, Weight: r.Weight, Port: r.Port, Target: dns.Fqdn(r.Target),
		})
	}
	d.replace(name, rrs, dns.TypeSRV)
}

// SetAddrs replaces the A and AAAA records of a host; without addresses it removes them.
func (d *DNS) SetAddrs(host string, addrs ...netip.Addr) {
	rrs := make([]dns.RR, 0, len(addrs))
	for _, addr := range addrs {
		if addr.Is4() {
			rrs = append(rrs, &dns.A{Hdr: dnsHeader(host, dns.TypeA), A: addr.AsSlice()})
		} else {
			rrs = append(rrs, &dns.AAAA{Hdr: dnsHeader(host, dns.TypeAAAA), AAAA: addr.AsSlice()})
		}
	}
	d.replace(host, rrs, dns.TypeA, dns.TypeAAAA)
}

// SetCNAME makes a name an alias of another one.
func (d *DNS) SetCNAME(name, target string) {
	d.replace(name, []dns.RR{&dns.CNAME{Hdr: dnsHeader(name, dns.TypeCNAME), Target: dns.Fqdn(target)}}, dns.TypeCNAME)
}

// AddRecord adds a record in the form of a zone file, such as `txt.cluster.test. 5 IN TXT "hello"`. The error says what
// is wrong with it.
func (d *DNS) AddRecord(record string) error {
	rr, err := dns.NewRR(record)
	if err != nil {
		return fmt.Errorf("add DNS record: %w", err)
	}
	if rr == nil {
		return fmt.Errorf("add DNS record: there is none in %q", record)
	}
	name := dnsName(rr.Header().Name)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zone[name] = append(slices.Clone(d.zone[name]), rr)
	return nil
}

// Remove removes all records of a name.
func (d *DNS) Remove(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.zone, dnsName(name))
}

func (d *DNS) replace(name string, rrs []dns.RR, types ...uint16) {
	name = dnsName(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := slices.DeleteFunc(slices.Clone(d.zone[name]), func(rr dns.RR) bool {
		return slices.Contains(types, rr.Header().Rrtype)
	})
	if kept = append(kept, rrs...); len(kept) == 0 {
		delete(d.zone, name)
		return
	}
	d.zone[name] = kept
}

// dnsZone holds the records of each name. Slices are replaced, never written to, so that replies can share them.
type dnsZone map[string][]dns.RR

// answer returns the records for a question and the reply code.
func (z dnsZone) answer(name string, qtype uint16) ([]dns.RR, int) {
	var answer []dns.RR
	for range dnsMaxAliases {
		var alias *dns.CNAME
		found := false
		for _, rr := range z[name] {
			if rr.Header().Rrtype == qtype || qtype == dns.TypeANY {
				answer = append(answer, rr)
				found = true
			} else if cname, ok := rr.(*dns.CNAME); ok {
				alias = cname
			}
		}
		if found || alias == nil {
			return answer, z.code(name)
		}
		answer = append(answer, alias)
		name = dnsName(alias.Target)
	}
	return answer, dns.RcodeSuccess
}

// code tells a name that exists from one that does not. A name with records below it exists (RFC 8020).
func (z dnsZone) code(name string) int {
	for owner := range z {
		if owner == name || strings.HasSuffix(owner, "."+name) {
			return dns.RcodeSuccess
		}
	}
	return dns.RcodeNameError
}

// dnsName is the form in which names are compared and shown.
func dnsName(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

func dnsHeader(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: dns.Fqdn(name), Rrtype: rrtype, Class: dns.ClassINET, Ttl: dnsTTL}
}

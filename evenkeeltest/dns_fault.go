// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"fmt"
	"time"

	"github.com/miekg/dns"
)

// DNSFault is what a name server does wrong for a name. The zero value changes nothing. Where several fields are set,
// the question first waits for Delay and Gate; then Silent, Raw and Code decide, in this order.
type DNSFault struct {
	// Delay is how long the reply takes.
	Delay time.Duration
	// Gate holds the reply back until the channel is closed or has a value.
	Gate <-chan struct{}
	// Silent leaves the question without a reply.
	Silent bool
	// Raw makes the replies, byte by byte; they are sent in order, over TCP each with its length in front.
	Raw func(DNSQuery) [][]byte
	// Code is the reply code of replies without records, such as "SERVFAIL", "REFUSED" or "NOERROR" (which is NODATA).
	Code string
	// Truncate sends replies over UDP without records and with the TC bit.
	Truncate bool
	// Untruncated sends replies over UDP whole, however large.
	Untruncated bool
	// Lame clears the AA bit, so that a reply claims neither authority nor recursion.
	Lame bool
	// Extra are records in the form of a zone file that are put in front of the answer, whoever owns them.
	Extra []string
	// Referral is a name server that the authority section refers to; empty means none.
	Referral string
}

// SetFault replaces the fault of a name, or of every name when it is empty, for questions of one type such as "SRV", or of
// every type when that is empty. The fault of a name goes before that of every name, and then that of a type before that
// of every type. The error says which part of the fault cannot be read.
func (d *DNS) SetFault(name, qtype string, fault DNSFault) error {
	if _, known := dns.StringToRcode[fault.Code]; fault.Code != "" && !known {
		return fmt.Errorf("set DNS fault: unknown reply code %q", fault.Code)
	}
	for _, extra := range fault.Extra {
		if rr, err := dns.NewRR(extra); err != nil || rr == nil {
			return fmt.Errorf("set DNS fault: unreadable record %q", extra)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults[dnsKey(name, qtype)] = fault
	return nil
}

// ClearFault removes the fault that SetFault set with the same name and type.
func (d *DNS) ClearFault(name, qtype string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.faults, dnsKey(name, qtype))
}

// ClearFaults removes all faults.
func (d *DNS) ClearFaults() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.faults)
}

func dnsKey(name, qtype string) string { return qtype + " " + dnsName(name) }

// serve answers one question. miekg/dns runs it on a goroutine of its own, which Shutdown waits for.
func (d *DNS) serve(w dns.ResponseWriter, request *dns.Msg) {
	query, err := dnsQuery(w, request)
	if err != nil {
		return // unpacked just now, so it can be packed; nobody to tell if not
	}
	fault := d.receive(query)
	if !d.hold(fault) {
		return
	}
	switch {
	case fault.Silent:
	case fault.Raw != nil:
		for _, raw := range fault.Raw(query) {
			_, _ = w.Write(raw) // the client may be gone
		}
	default:
		_ = w.WriteMsg(d.reply(request, query, fault)) // the client may be gone
	}
}

// hold waits as long as the fault says; it returns false when the server is closed meanwhile.
func (d *DNS) hold(fault DNSFault) bool {
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-d.done:
			return false
		}
	}
	if fault.Gate == nil {
		return true
	}
	select {
	case <-fault.Gate:
		return true
	case <-d.done:
		return false
	}
}

func dnsQuery(w dns.ResponseWriter, request *dns.Msg) (DNSQuery, error) {
	packed, err := request.Pack()
	if err != nil || len(request.Question) == 0 {
		return DNSQuery{}, fmt.Errorf("unreadable question: %w", err)
	}
	question := request.Question[0]
	return DNSQuery{
		Name:    dnsName(question.Name),
		Type:    dns.TypeToString[question.Qtype],
		Network: w.RemoteAddr().Network(),
		Packed:  packed,
	}, nil
}

// receive keeps a question, wakes who waits for it, and returns the fault that applies.
func (d *DNS) receive(query DNSQuery) DNSFault {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noteLocked(query)
	close(d.arrived)
	d.arrived = make(chan struct{})
	for _, name := range []string{query.Name, ""} {
		for _, qtype := range []string{query.Type, ""} {
			if fault, found := d.faults[dnsKey(name, qtype)]; found {
				return fault
			}
		}
	}
	return DNSFault{}
}

func (d *DNS) reply(request *dns.Msg, query DNSQuery, fault DNSFault) *dns.Msg {
	reply := new(dns.Msg).SetReply(request)
	reply.Authoritative = !fault.Lame
	if fault.Code != "" {
		reply.Rcode = dns.StringToRcode[fault.Code]
		return dnsRefer(reply, fault)
	}
	reply.Answer = dnsRecords(fault.Extra)
	d.mu.Lock()
	answer, code := d.zone.answer(query.Name, request.Question[0].Qtype)
	d.mu.Unlock()
	reply.Answer = append(reply.Answer, answer...)
	reply.Rcode = code
	return dnsFit(dnsRefer(reply, fault), request, query, fault)
}

// dnsFit truncates a reply to what the client takes over UDP.
func dnsFit(reply, request *dns.Msg, query DNSQuery, fault DNSFault) *dns.Msg {
	reply.Compress = true
	size := dns.MinMsgSize
	if edns := request.IsEdns0(); edns != nil {
		size = int(edns.UDPSize())
		reply.SetEdns0(edns.UDPSize(), false)
	}
	switch {
	case query.Network != "udp" || fault.Untruncated:
	case fault.Truncate:
		reply.Answer, reply.Truncated = nil, true
	default:
		reply.Truncate(size)
	}
	return reply
}

func dnsRefer(reply *dns.Msg, fault DNSFault) *dns.Msg {
	if fault.Referral != "" {
		zone := dnsHeader(reply.Question[0].Name, dns.TypeNS)
		reply.Ns = append(reply.Ns, &dns.NS{Hdr: zone, Ns: dns.Fqdn(fault.Referral)})
	}
	return reply
}

// dnsRecords reads records that SetFault has read before.
func dnsRecords(lines []string) []dns.RR {
	var rrs []dns.RR
	for _, line := range lines {
		if rr, err := dns.NewRR(line); err == nil && rr != nil {
			rrs = append(rrs, rr)
		}
	}
	return rrs
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	codeNoError  = "NOERROR"
	codeNXDomain = "NXDOMAIN"
)

// maxAliases bounds how many CNAMEs are followed from the name of the question.
const maxAliases = 16

var (
	errGarbage  = errors.New("the reply is not a readable DNS message")
	errReferral = errors.New("the reply refers to other name servers; ask one that answers for the name or looks names up itself")
)

// belonging says whether a message is the reply to a query.
type belonging int

const (
	foreign belonging = iota // not the reply: another id or question, or no reply at all (RFC 5452 section 9.1)
	broken                   // our id, but the rest cannot be read
	ours                     // the reply
)

// belongs compares a message with the query it should answer. Some servers leave the question out of a reply that only
// says that they failed; with the right id that is a reply too.
func belongs(msg []byte, id uint16, question dnsmessage.Question) belonging {
	var p dnsmessage.Parser
	header, err := p.Start(msg)
	if err != nil || header.ID != id || !header.Response {
		return foreign
	}
	got, err := p.Question()
	if errors.Is(err, dnsmessage.ErrSectionDone) && header.RCode != dnsmessage.RCodeSuccess && header.RCode != dnsmessage.RCodeNameError {
		return ours
	}
	if err != nil {
		return broken
	}
	if got.Type != question.Type || got.Class != question.Class ||
		canonical(got.Name.String()) != canonical(question.Name.String()) {
		return foreign
	}
	return ours
}

// record is one resource record of an answer; which fields are set depends on its type.
type record struct {
	owner  string
	kind   dnsmessage.Type
	target string // SRV and CNAME, canonical
	addr   netip.Addr

	priority, weight, port uint16
}

// fault says what is wrong with one record of an answer.
type fault struct {
	owner string // canonical, empty when it cannot be read
	err   error
}

// reply is what a message says, before any record is judged by its owner.
type reply struct {
	code      string
	truncated bool
	referral  bool
	records   []record
	faults    []fault
}

// parseReply reads a message that belongs to its query. Records that cannot be read become faults and do not harm the
// others. Only records of the wanted type and CNAMEs are kept.
func parseReply(msg []byte, want dnsmessage.Type) (reply, error) {
	var p dnsmessage.Parser
	header, err := p.Start(msg)
	if err != nil {
		return reply{}, errGarbage
	}
	if err := p.SkipAllQuestions(); err != nil {
		return reply{}, errGarbage
	}
	r := reply{truncated: header.Truncated}
	tail := r.readAnswers(&p, want)
	authorities, extended := readRest(&p, header.RCode, tail)
	r.code = codeName(extended)
	r.referral = authorities && len(r.records) == 0 && len(r.faults) == 0 &&
		!header.Authoritative && !header.RecursionAvailable
	return r, nil
}

// readAnswers collects the records of the answer section. It returns whether the sections behind it can be found.
func (r *reply) readAnswers(p *dnsmessage.Parser, want dnsmessage.Type) bool {
	for position := 1; ; position++ {
		header, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return true
		}
		owner := ""
		if err == nil {
			owner = canonical(header.Name.String())
			err = r.readRecord(*p, header, owner, want)
		} else {
			err = errors.New("its owner cannot be read")
		}
		if p.SkipAnswer() != nil {
			r.faults = append(r.faults, fault{"", fmt.Errorf("record %d: the message ends inside it", position)})
			return false
		}
		if err != nil {
			r.faults = append(r.faults, fault{owner, fmt.Errorf("record %d: %w", position, err)})
		}
	}
}

// readRecord reads the body that p stands at. It is given a copy of the parser: the caller goes on from the header.
func (r *reply) readRecord(p dnsmessage.Parser, header dnsmessage.ResourceHeader, owner string, want dnsmessage.Type) error {
	if header.Class != dnsmessage.ClassINET || header.Type != want && header.Type != dnsmessage.TypeCNAME {
		return nil
	}
	raw := p
	body, err := raw.UnknownResource()
	if err != nil {
		return nil //nolint:nilerr // behind the end of the message: reported when it is skipped
	}
	rec := record{owner: owner, kind: header.Type}
	switch header.Type {
	case dnsmessage.TypeSRV:
		err = rec.readSRV(&p, body.Data)
	case dnsmessage.TypeCNAME:
		err = rec.readCNAME(&p, body.Data)
	case dnsmessage.TypeA, dnsmessage.TypeAAAA:
		err = rec.readAddr(body.Data)
	default:
		return nil
	}
	if err == nil {
		r.records = append(r.records, rec)
	}
	return err
}

// srvFixed is the length of priority, weight and port in front of the target.
const srvFixed = 6

func (rec *record) readSRV(p *dnsmessage.Parser, body []byte) error {
	if len(body) < srvFixed || !nameFills(body[srvFixed:]) {
		return errors.New("its length and its content disagree")
	}
	srv, err := p.SRVResource()
	if err != nil {
		return errors.New("its target cannot be read")
	}
	rec.priority, rec.weight, rec.port = srv.Priority, srv.Weight, srv.Port
	rec.target = canonical(srv.Target.String())
	if rec.absent() {
		return nil
	}
	if err := checkName(rec.target); err != nil {
		return fmt.Errorf("its target %w", err)
	}
	return nil
}

// absent says whether a record names no server: RFC 2782 has the target "." for "not here", and port 0 cannot be
// connected to.
func (rec *record) absent() bool {
	return rec.target == "" || rec.port == 0
}

func (rec *record) readCNAME(p *dnsmessage.Parser, body []byte) error {
	cname, err := p.CNAMEResource()
	if err != nil || !nameFills(body) {
		return errors.New("its target cannot be read")
	}
	rec.target = canonical(cname.CNAME.String())
	return nil
}

func (rec *record) readAddr(body []byte) error {
	addr, ok := netip.AddrFromSlice(body)
	if !ok || addr.Is4() != (rec.kind == dnsmessage.TypeA) {
		return errors.New("its address has a wrong length")
	}
	rec.addr = addr.Unmap()
	return nil
}

// nameFills says whether a name in wire format takes up all of b. dnsmessage reads on behind the end of a record, into
// the next one.
func nameFills(b []byte) bool {
	for len(b) > 0 {
		switch c := int(b[0]); {
		case c == 0:
			return len(b) == 1
		case c >= 0xC0: // a pointer ends the name
			return len(b) == 2
		case c > maxLabel || c >= len(b):
			return false
		default:
			b = b[1+c:]
		}
	}
	return false
}

// readRest looks behind the answers: whether there are NS records (and no SOA, which would make it a negative answer of
// RFC 2308), and for the upper bits of the reply code (RFC 6891 section 6.1.3).
func readRest(p *dnsmessage.Parser, code dnsmessage.RCode, readable bool) (bool, dnsmessage.RCode) {
	if !readable {
		return false, code
	}
	servers, negative := false, false
	for {
		header, err := p.AuthorityHeader()
		if err != nil || p.SkipAuthority() != nil {
			break
		}
		servers = servers || header.Type == dnsmessage.TypeNS
		negative = negative || header.Type == dnsmessage.TypeSOA
	}
	for {
		header, err := p.AdditionalHeader()
		if err != nil {
			return servers && !negative, code
		}
		if header.Type == dnsmessage.TypeOPT {
			return servers && !negative, header.ExtendedRCode(code)
		}
		if p.SkipAdditional() != nil {
			return servers && !negative, code
		}
	}
}

// chosen returns the records of the wanted type that belong to name, after its CNAMEs, and the faults among them. A
// fault whose owner cannot be read might belong to anything and is reported.
func (r *reply) chosen(name string, want dnsmessage.Type) ([]record, []fault) {
	owner := r.follow(canonical(name))
	records := slices.DeleteFunc(slices.Clone(r.records), func(rec record) bool {
		return rec.kind != want || rec.owner != owner
	})
	faults := slices.DeleteFunc(slices.Clone(r.faults), func(f fault) bool {
		return f.owner != "" && f.owner != owner
	})
	return records, faults
}

func (r *reply) follow(name string) string {
	aliases := make(map[string]string)
	for _, rec := range r.records {
		if rec.kind == dnsmessage.TypeCNAME && aliases[rec.owner] == "" {
			aliases[rec.owner] = rec.target
		}
	}
	for range maxAliases {
		target, found := aliases[name]
		if !found {
			break
		}
		name = target
	}
	return name
}

// endpoints makes endpoints of SRV records: no absent ones, each host and port once, in the order of RFC 2782. Of
// duplicates the one that RFC 2782 prefers stays: the lowest priority, then the highest weight.
func endpoints(records []record) []Endpoint {
	found := make([]Endpoint, 0, len(records))
	for _, rec := range records {
		if rec.absent() {
			continue
		}
		found = append(found, Endpoint{
			Host: rec.target, Port: rec.port, Priority: rec.priority, Weight: rec.weight, Absolute: true,
		})
	}
	slices.SortFunc(found, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Weight, a.Weight),
			strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	type server struct {
		host string
		port uint16
	}
	seen := make(map[server]bool, len(found))
	return slices.DeleteFunc(found, func(e Endpoint) bool {
		key := server{e.Host, e.Port}
		duplicate := seen[key]
		seen[key] = true
		return duplicate
	})
}

// codeName returns the mnemonic of a reply code (IANA DNS RCODEs), or "RCODE" and its number.
func codeName(code dnsmessage.RCode) string {
	names := map[dnsmessage.RCode]string{
		dnsmessage.RCodeSuccess: codeNoError, dnsmessage.RCodeFormatError: "FORMERR",
		dnsmessage.RCodeServerFailure: "SERVFAIL", dnsmessage.RCodeNameError: codeNXDomain,
		dnsmessage.RCodeNotImplemented: "NOTIMP", dnsmessage.RCodeRefused: "REFUSED",
		6: "YXDOMAIN", 7: "YXRRSET", 8: "NXRRSET", 9: "NOTAUTH", 10: "NOTZONE", 16: "BADVERS",
	}
	if name, known := names[code]; known {
		return name
	}
	return fmt.Sprintf("RCODE%d", code)
}

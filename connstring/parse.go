// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring

import "strings"

// hintEscape does not say which byte it was: that would be a byte of a secret.
const hintEscape = "in user and password write @ as %40, / as %2F, ? as %3F, # as %23, % as %25 and a blank as %20"

// hintOptions names the known options.
const hintOptions = "known are apiKey, auth, loadBalancer, skipTlsValidation, srvNameServer, certificatePath, " +
	"certificatePassword and skipCompatibilityCheck; write & inside a value as %26"

// Parse reads a connection string of at most MaxLength bytes. The error is a *ParseError, which says where the
// string breaks which rule and holds nothing of the string.
//
// Parse looks nothing up and takes time in proportion to the length of s.
func Parse(s string) (*ConnString, error) {
	p := parser{in: s, conn: &ConnString{}}
	for i := range p.seen {
		p.seen[i] = NoOffset
	}
	if e := p.run(); e != nil {
		return nil, e
	}
	return p.conn, nil
}

// parser walks once over its input. All offsets are offsets in the input.
type parser struct {
	in   string
	conn *ConnString
	// seen has the offset of each option that was read, or NoOffset.
	seen [optionCount]int
}

func (p *parser) run() *ParseError {
	if len(p.in) > MaxLength {
		return tooLong().at(MaxLength)
	}
	start, e := p.scheme()
	if e != nil {
		return e
	}
	end := p.indexAny(start, "/?#")
	if e := p.authority(start, end); e != nil {
		return p.blame(e, end)
	}
	query, e := p.path(end)
	if e != nil {
		return p.blame(e, end)
	}
	if e := p.options(query); e != nil {
		return e
	}
	return p.together(start)
}

// blame decides what to say about an authority or path that does not parse. When an @ follows later, the likely
// cause is a raw / ? or # in a password, which made a piece of the credentials look like hosts and ports: an error
// about these would point at bytes of a secret and call them names they do not have.
func (p *parser) blame(e *ParseError, end int) *ParseError {
	if strings.IndexByte(p.in[end:], '@') < 0 {
		return e
	}
	return unescaped("an @ follows the end of the host list").at(end)
}

// scheme returns the offset behind the scheme.
func (p *parser) scheme() (int, *ParseError) {
	for _, known := range []string{scheme, schemeSRV} {
		if len(p.in) >= len(known) && strings.EqualFold(p.in[:len(known)], known) {
			p.conn.SRV = known == schemeSRV
			return len(known), nil
		}
	}
	return 0, fault(CodeScheme, PartScheme, "missing or not known", "begin with chronicle:// or chronicle+srv://")
}

// authority reads the credentials and the hosts between two offsets.
func (p *parser) authority(from, to int) *ParseError {
	if at := strings.LastIndexByte(p.in[from:to], '@'); at >= 0 {
		if e := p.credentials(from, from+at); e != nil {
			return e
		}
		from += at + 1
	}
	return p.hosts(from, to)
}

// credentials reads "user:password" between two offsets.
func (p *parser) credentials(from, to int) *ParseError {
	for i := from; i < to; i++ {
		if c := p.in[i]; c == '@' || c == ' ' || isControl(c) {
			return unescaped("byte that has to be escaped").at(i)
		}
	}
	user, password, _ := strings.Cut(p.in[from:to], ":")
	if e := credentialsPresent(user, password); e != nil {
		return e.at(from)
	}
	passwordFrom := from + len(user) + 1
	var bad int
	if p.conn.Username, bad = unescape(user); bad >= 0 {
		return badEscape(PartCredentials).at(from + bad)
	}
	if password == mask {
		return redacted(PartCredentials).at(passwordFrom)
	}
	password, bad = unescape(password)
	if bad >= 0 {
		return badEscape(PartCredentials).at(passwordFrom + bad)
	}
	p.conn.Password = NewSecret(password)
	return nil
}

// hosts reads the list of hosts between two offsets.
func (p *parser) hosts(from, to int) *ParseError {
	list := p.in[from:to]
	entries := strings.Count(list, ",") + 1
	if p.conn.SRV && entries > 1 {
		return srvList().at(from + strings.IndexByte(list, ','))
	}
	p.conn.Hosts = make([]Host, 0, entries)
	for entry := range strings.SplitSeq(list, ",") {
		h, e := p.host(entry)
		if e != nil {
			if entries > 1 {
				e.Index = len(p.conn.Hosts) + 1
			}
			return e.shift(from)
		}
		p.conn.Hosts = append(p.conn.Hosts, h)
		from += len(entry) + 1
	}
	return nil
}

// host reads one entry of the list. Offsets of errors count from the start of the entry.
func (p *parser) host(entry string) (Host, *ParseError) {
	h, e := parseHostPort(entry, "%25")
	switch {
	case e != nil:
		return Host{}, e
	case !p.conn.SRV && h.Port == 0:
		h.Port = DefaultPort
	case p.conn.SRV && h.Port != 0:
		return Host{}, srvPort().at(strings.LastIndexByte(entry, ':'))
	case p.conn.SRV:
		return h, checkSRVName(h.Name)
	}
	return h, nil
}

// path checks what follows the hosts and returns the offset of the query behind its ?, or the end of the input.
func (p *parser) path(from int) (int, *ParseError) {
	if from < len(p.in) && p.in[from] == '/' {
		from++
	}
	switch {
	case from == len(p.in):
		return from, nil
	case p.in[from] == '?':
		return from + 1, nil
	case p.in[from] == '#':
		return 0, fragment().at(from)
	}
	return 0, fault(CodePath, PartPath, "connection strings have no path but a single slash",
		"options follow a question mark, as in localhost:35000/?name=value").at(from)
}

// options reads the pairs from an offset to the end.
func (p *parser) options(from int) *ParseError {
	if e := p.optionBytes(from); e != nil {
		return e
	}
	index := 0
	for pair := range strings.SplitSeq(p.in[from:], "&") {
		if pair != "" {
			index++
			if e := p.option(pair, from); e != nil {
				if e.Part == PartOption {
					e.Index = index
				}
				return e
			}
		}
		from += len(pair) + 1
	}
	return nil
}

// optionBytes looks for bytes that the options may not have, wherever they are.
func (p *parser) optionBytes(from int) *ParseError {
	for i := from; i < len(p.in); i++ {
		if p.in[i] == '#' {
			return fragment().at(i)
		}
		if isControl(p.in[i]) {
			return fault(CodeOptionControl, PartOption, "control byte among the options",
				"escape it, or remove a line end behind the string").at(i)
		}
	}
	return nil
}

// option reads one pair, which starts at an offset.
func (p *parser) option(pair string, from int) *ParseError {
	rawName, rawValue, _ := strings.Cut(pair, "=")
	valueFrom := min(from+len(rawName)+1, len(p.in))
	name, bad := unescape(rawName)
	if bad >= 0 {
		return badEscape(PartOption).at(from + bad)
	}
	id, known := findOption(name)
	if !known {
		return p.unknownOption(name, from)
	}
	if p.seen[id] != NoOffset {
		return fault(CodeOptionRepeated, PartOption, "given twice", "keep one of them").of(id).at(from)
	}
	p.seen[id] = from
	if options[id].secret && rawValue == mask {
		return redacted(PartOption).of(id).at(valueFrom)
	}
	value, bad := unescape(rawValue)
	if bad >= 0 {
		return badEscape(PartOption).of(id).at(valueFrom + bad)
	}
	if e := options[id].set(p.conn, value); e != nil {
		return e.of(id).at(valueFrom)
	}
	return nil
}

// unknownOption says that there is no option of that name, without saying the name.
func (p *parser) unknownOption(name string, from int) *ParseError {
	hint := hintOptions
	if meant := closestOption(name); meant != "" {
		hint = "did you mean " + meant + "?"
	} else if strings.IndexByte(p.in[from:], '@') >= 0 {
		return unescaped("an @ follows an option that is not known").at(from)
	}
	return fault(CodeOptionUnknown, PartOption, "not known", hint).at(from)
}

// together checks the parts against each other. The error points at the option it names.
func (p *parser) together(authority int) *ParseError {
	e := p.conn.contradiction()
	if e == nil {
		return nil
	}
	if id, known := findOption(e.Option); known {
		return e.at(p.seen[id])
	}
	return e.at(authority)
}

// indexAny returns the offset of the first of the given bytes at or behind an offset, or the end of the input.
func (p *parser) indexAny(from int, chars string) int {
	if i := strings.IndexAny(p.in[from:], chars); i >= 0 {
		return from + i
	}
	return len(p.in)
}

// credentialsPresent checks that there are a user name and a password.
func credentialsPresent(user, password string) *ParseError {
	switch {
	case user == "":
		return fault(CodeCredentialsIncomplete, PartCredentials, "user name is missing", "write user:password@ or neither")
	case password == "":
		return fault(CodeCredentialsIncomplete, PartCredentials, "password is missing", "write user:password@ or neither")
	}
	return nil
}

func tooLong() *ParseError {
	return fault(CodeTooLong, PartString, "longer than 65536 bytes", "")
}

func fragment() *ParseError {
	return fault(CodeFragment, PartFragment, "connection strings have no fragment", "write # as %23")
}

func unescaped(reason string) *ParseError {
	return fault(CodeCredentialsUnescaped, PartCredentials, reason, hintEscape)
}

func badEscape(part Part) *ParseError {
	return fault(CodeBadEscape, part, "% that two hexadecimal digits do not follow", "write % itself as %25")
}

func redacted(part Part) *ParseError {
	return fault(CodeRedacted, part, "secret is hidden: this is what a connection string looks like in a log",
		"use the original; a secret that is really *** is written %2A**")
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	maxNameLength  = 253 // RFC 1035, section 2.3.4, as written, without a final dot
	maxLabelLength = 63  // RFC 1035, section 2.3.4
	// srvPrefixLength is the length of "_chronicle._tcp.", which goes in front of a name whose SRV records are asked
	// for. A name that is too long with it could be parsed but never be asked for.
	srvPrefixLength = len("_chronicle._tcp.")
)

// Hints that several errors share.
const (
	hintBrackets = "put IPv6 addresses in brackets, as in [::1]:35000"
	hintPort     = "a port is a decimal number from 1 to 65535"
	hintZone     = "write a zone as in [fe80::1%25eth0]"
)

// Host is one server as a connection string names it. It is a comparable value and safe for concurrent use.
type Host struct {
	// Name is a DNS name in lower case, with its final dot if it was written with one, an IPv4 address, or an IPv6
	// address without brackets in the form of RFC 5952, with its zone behind a % if it has one.
	Name string
	// Port is 1 to 65535. It is 0 in a chronicle+srv string, whose ports are in the SRV records.
	Port uint16
}

// String returns "name:port", with an IPv6 address in brackets, as net.Dial takes it. Without a port it returns the
// name alone.
func (h Host) String() string {
	if h.Port == 0 {
		return h.Name
	}
	return net.JoinHostPort(h.Name, strconv.Itoa(int(h.Port)))
}

// normaliseHosts checks hosts that were given as parts and brings each to its one form.
func normaliseHosts(hosts []Host, srv bool) *ParseError {
	switch {
	case len(hosts) == 0:
		return hostMissing()
	case srv && len(hosts) > 1:
		return srvList()
	case srv && hosts[0].Port != 0:
		return srvPort()
	}
	for i := range hosts {
		name, e := canonicalHost(hosts[i].Name)
		if e == nil && srv {
			e = checkSRVName(name)
		}
		if e != nil {
			if len(hosts) > 1 {
				e.Index = i + 1
			}
			return e
		}
		hosts[i].Name = name
		if !srv && hosts[i].Port == 0 {
			hosts[i].Port = DefaultPort
		}
	}
	return nil
}

// parseHostPort reads "host[:port]", an IPv6 address in brackets with its zone behind the given mark. The port is 0
// where there is none. Offsets of errors count from the start of s.
func parseHostPort(s, zoneMark string) (Host, *ParseError) {
	if s == "" {
		return Host{}, hostMissing()
	}
	if s[0] == '[' {
		return parseBracketed(s, zoneMark)
	}
	colon := strings.IndexByte(s, ':')
	name, port := s, ""
	if colon >= 0 {
		name, port = s[:colon], s[colon+1:]
		if more := strings.IndexByte(port, ':'); more >= 0 {
			return Host{}, fault(CodeHostBrackets, PartHost, "more than one colon", hintBrackets).at(colon + 1 + more)
		}
	}
	name, e := canonicalName(name)
	if e != nil {
		return Host{}, e
	}
	h := Host{Name: name}
	if colon >= 0 {
		if h.Port, e = parsePort(port); e != nil {
			return Host{}, e.shift(colon + 1)
		}
	}
	return h, nil
}

// parseBracketed reads "[address]" and "[address]:port".
func parseBracketed(s, zoneMark string) (Host, *ParseError) {
	end := strings.IndexByte(s, ']')
	if end < 0 {
		return Host{}, fault(CodeHostIPv6, PartHost, "opening bracket without a closing one", hintBrackets)
	}
	address, zone, zoned := strings.Cut(s[1:end], "%")
	if zoned {
		var marked bool
		if zone, marked = strings.CutPrefix("%"+zone, zoneMark); !marked {
			return Host{}, fault(CodeHostIPv6, PartHost, "zone that is not introduced by %25", hintZone).at(1 + len(address))
		}
		address += "%" + zone
	}
	name, e := canonicalIPv6(address)
	if e != nil {
		return Host{}, e.shift(1)
	}
	h, rest := Host{Name: name}, s[end+1:]
	if rest == "" {
		return h, nil
	}
	if rest[0] != ':' {
		return Host{}, fault(CodeHostIPv6, PartHost, "text behind the closing bracket", hintBrackets).at(end + 1)
	}
	if h.Port, e = parsePort(rest[1:]); e != nil {
		return Host{}, e.shift(end + 2)
	}
	return h, nil
}

// parsePort reads a port. It reads digits only, where strconv would accept a sign, and quotes nothing in its errors.
func parsePort(s string) (uint16, *ParseError) {
	if s == "" {
		return 0, fault(CodePortMissing, PartPort, "nothing follows the colon", "leave out the colon for the default port")
	}
	port := 0
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, fault(CodePort, PartPort, "not a number", hintPort).at(i)
		}
		if port = 10*port + int(s[i]-'0'); port > 65535 {
			return 0, fault(CodePort, PartPort, "above 65535", hintPort)
		}
	}
	if port == 0 {
		return 0, fault(CodePort, PartPort, "zero", hintPort)
	}
	return uint16(port), nil
}

// canonicalHost checks a host that is written bare, an IPv6 address without brackets and with its zone behind a
// single %, and returns its one form.
func canonicalHost(s string) (string, *ParseError) {
	if strings.IndexByte(s, ':') < 0 {
		return canonicalName(s)
	}
	name, e := canonicalIPv6(s)
	if e != nil {
		e.Hint = "write the address without brackets and port"
	}
	return name, e
}

// canonicalIPv6 checks an IPv6 address without brackets, with its zone behind a single %.
func canonicalIPv6(s string) (string, *ParseError) {
	bare, zone, zoned := strings.Cut(s, "%")
	address, err := netip.ParseAddr(bare)
	if err != nil || !address.Is6() {
		// The error of net/netip quotes its input, so it goes no further.
		return "", fault(CodeHostIPv6, PartHost, "not an IPv6 address", "only IPv6 addresses stand in brackets")
	}
	if zoned && (zone == "" || strings.IndexFunc(zone, isNoZoneByte) >= 0) {
		return "", fault(CodeHostIPv6, PartHost, "zone that is empty or has an odd byte", hintZone).at(len(bare))
	}
	if address.Is4In6() {
		if zoned {
			return "", fault(CodeHostIPv6, PartHost, "zone on an IPv4 address", "leave out the zone").at(len(bare))
		}
		// The same server in both spellings, and a dial goes there by IPv4 in any case.
		return address.Unmap().String(), nil
	}
	return address.WithZone(zone).String(), nil
}

// isNoZoneByte says whether RFC 6874 has no place for r in a zone that is not escaped.
func isNoZoneByte(r rune) bool { return r >= 0x80 || !isUnreserved(byte(r)) }

// canonicalName checks a DNS name or an IPv4 address and returns it in lower case.
func canonicalName(s string) (string, *ParseError) {
	if s == "" {
		return "", hostMissing()
	}
	for i := range len(s) {
		if e := checkNameByte(s[i]); e != nil {
			return "", e.at(i)
		}
	}
	s = strings.ToLower(s)
	relative := strings.TrimSuffix(s, ".")
	if last := relative[strings.LastIndexByte(relative, '.')+1:]; last != "" && strings.Trim(last, "0123456789") == "" {
		// A name that ends in a number is read as an address by some resolvers and as a name by others.
		if address, err := netip.ParseAddr(s); err == nil && address.Is4() {
			return s, nil
		}
		return "", fault(CodeHostIPv4, PartHost, "ends in a number and is not an IPv4 address",
			"an IPv4 address is four numbers from 0 to 255 without leading zeros, and the last part of a DNS name has a letter")
	}
	if len(relative) > maxNameLength {
		return "", fault(CodeHostName, PartHost, "name of more than 253 bytes", "")
	}
	return s, checkLabels(relative)
}

// checkLabels checks the parts between the dots of a name, which may not be empty.
func checkLabels(name string) *ParseError {
	at := 0
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return fault(CodeHostName, PartHost, "empty part between dots", "").at(at)
		case len(label) > maxLabelLength:
			return fault(CodeHostName, PartHost, "part of more than 63 bytes between dots", "").at(at)
		case label[0] == '-' || label[len(label)-1] == '-':
			return fault(CodeHostName, PartHost, "part that begins or ends with a hyphen", "").at(at)
		}
		at += len(label) + 1
	}
	return nil
}

// checkNameByte says what is wrong with a byte of a name.
func checkNameByte(c byte) *ParseError {
	switch {
	case isLetter(c), isDigit(c), c == '-', c == '_', c == '.':
		return nil
	case c >= 0x80:
		return fault(CodeHostName, PartHost, "letter outside ASCII", "write the name in punycode")
	case c == '%':
		return fault(CodeHostName, PartHost, "percent escape in a name", "write the name without escapes")
	case c == ' ' || isControl(c):
		return fault(CodeHostName, PartHost, "blank or control byte in a name", "separate hosts with a single comma")
	default:
		return fault(CodeHostName, PartHost, "byte that has no place in a name",
			"names have letters, digits, hyphens, underscores and dots")
	}
}

// checkSRVName checks a canonical host for use with chronicle+srv.
func checkSRVName(name string) *ParseError {
	if _, err := netip.ParseAddr(name); err == nil {
		return fault(CodeSRVAddress, PartHost, "IP address with chronicle+srv", "SRV records belong to a DNS name")
	}
	if len(strings.TrimSuffix(name, ".")) > maxNameLength-srvPrefixLength {
		return fault(CodeHostName, PartHost, "name of more than 253 bytes with _chronicle._tcp. in front", "")
	}
	return nil
}

func hostMissing() *ParseError {
	return fault(CodeHostMissing, PartHost, "missing", "as in chronicle://localhost:35000")
}

func srvList() *ParseError {
	return fault(CodeSRVList, PartHost, "more than one name with chronicle+srv", "list the hosts in SRV records")
}

func srvPort() *ParseError {
	return fault(CodeSRVPort, PartPort, "not allowed with chronicle+srv", "the ports are in the SRV records")
}

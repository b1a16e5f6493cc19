// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const (
	maxName  = 253 // RFC 1035 section 2.3.4, written without the final dot
	maxLabel = 63
)

var errIsAddress = errors.New("is an IP address where a DNS name is needed")

// checkName says what is wrong with a DNS name that has no final dot. Underscores pass, as they do in service names and
// in many host names. It never quotes the name, which may be as long as a message.
func checkName(name string) error {
	if name == "" {
		return errors.New("is empty")
	}
	if len(name) > maxName {
		return fmt.Errorf("is longer than %d bytes", maxName)
	}
	digitsOnly := true
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return err
		}
		digitsOnly = digitsOnly && strings.Trim(label, "0123456789") == ""
	}
	// No top-level domain is all digits, so such a name is an address, or half of one.
	if digitsOnly {
		return errIsAddress
	}
	return nil
}

func checkLabel(label string) error {
	switch {
	case label == "":
		return errors.New("has an empty label")
	case len(label) > maxLabel:
		return fmt.Errorf("has a label longer than %d bytes", maxLabel)
	case label[0] == '-' || label[len(label)-1] == '-':
		return errors.New("has a label that begins or ends with a hyphen")
	}
	for i := range len(label) {
		if err := checkByte(label[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkByte(c byte) error {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		return nil
	case c >= 0x80:
		return errors.New("has a non-ASCII letter; write the name in punycode")
	default:
		return fmt.Errorf("has the character %q, which no host name has", c)
	}
}

// canonical returns the form in which names are compared and shown: ASCII lower case, no final dot. Other bytes stay as
// they are: Unicode knows letters whose lower case is ASCII, and DNS does not.
func canonical(name string) string {
	lower := []byte(strings.TrimSuffix(name, "."))
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}

// nameServer is where an explicit name server is: an address, or a host name that is looked up on every resolve.
type nameServer struct {
	addr netip.Addr // the zero value when host is a name
	host string
	port uint16
}

// String returns "host:port" with IPv6 in brackets.
func (n nameServer) String() string {
	return Endpoint{Host: n.host, Port: n.port}.Addr()
}

// parseNameServer reads host[:port]. IPv6 needs brackets, because its last group could be taken for the port.
func parseNameServer(s string) (nameServer, error) {
	host, port, err := splitPort(s)
	if err != nil {
		return nameServer{}, err
	}
	server := nameServer{host: host, port: port}
	if addr, err := netip.ParseAddr(host); err == nil {
		server.addr = addr
		return server, nil
	}
	if strings.HasPrefix(s, "[") {
		return nameServer{}, errors.New("has no IPv6 address between the brackets")
	}
	return server, checkName(canonical(host))
}

func splitPort(s string) (string, uint16, error) {
	if rest, found := strings.CutPrefix(s, "["); found {
		host, after, closed := strings.Cut(rest, "]")
		if !closed || after != "" && after[0] != ':' {
			return "", 0, errors.New("has unbalanced brackets")
		}
		if !strings.Contains(host, ":") {
			return "", 0, errors.New("has no IPv6 address between the brackets")
		}
		port, err := parsePort(after)
		return host, port, err
	}
	if strings.Count(s, ":") > 1 {
		return "", 0, errors.New("has several colons; put IPv6 addresses in brackets")
	}
	colon := strings.IndexByte(s, ':')
	if colon < 0 {
		return s, dnsPort, nil
	}
	port, err := parsePort(s[colon:])
	return s[:colon], port, err
}

// parsePort reads ":port"; without the colon it is the port of DNS.
func parsePort(s string) (uint16, error) {
	digits, found := strings.CutPrefix(s, ":")
	if !found {
		return dnsPort, nil
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 {
		return 0, errors.New("has a port that is not a number from 1 to 65535")
	}
	return uint16(port), nil
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Endpoint is one server that a client may connect to. Its zero value names no server.
//
// Host and Port are what the source of the endpoint said, and together they tell endpoints apart. TLS checks the
// certificate against VerifyName, which is Host unless the source says otherwise. Addrs are the addresses behind Host
// where the source knows them; when it is empty the name is looked up when the endpoint is dialled. A selection that
// probed narrows Addrs to the one address its probe connected on, so that everything an attempt does reaches the same
// server.
//
// An Endpoint is a value: copies may be used concurrently as long as nobody writes to the shared Addrs.
type Endpoint struct {
	// Host is a DNS name without a final dot, an IPv4 address, or an IPv6 address without brackets.
	Host string
	// Port is the TCP port, 1 to 65535.
	Port uint16
	// Addrs are the known addresses of Host, in the order in which they should be tried; empty means not looked up.
	Addrs []netip.AddrPort
	// Priority orders endpoints as RFC 2782 does: endpoints of a higher number are tried only when all of the lower
	// numbers have failed.
	Priority uint16
	// Weight is the relative capacity inside a priority (RFC 2782). Equal or all-zero weights mean equal servers.
	Weight uint16
	// Absolute says that Host is a whole name: its addresses are looked up without the search list of the system, as
	// RFC 2782 wants it for SRV targets. Whoever looks Host up asks for LookupName, which heeds this.
	Absolute bool
	// ServerName is the name to send as SNI, to verify and to name as the authority of calls where that is not Host: a
	// DNS name without a final dot, or an address without brackets. Empty means Host. Several endpoints of one name have
	// it, since each of them needs a Host of its own.
	ServerName string
}

// Addr returns "host:port", with an IPv6 host in brackets. It identifies the endpoint: two endpoints with the same
// Addr are the same server.
func (e Endpoint) Addr() string {
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

// LookupName returns the name to ask a resolver for: Host, with a final dot when it is an absolute DNS name. TLS,
// authorities and people are given Host instead.
func (e Endpoint) LookupName() string {
	if !e.Absolute || e.Host == "" || isAddress(e.Host) {
		return e.Host
	}
	return e.Host + "."
}

// VerifyName returns the name that TLS sends and checks: ServerName, or else Host. It has no IPv6 zone, which is this
// machine's affair and stands in no certificate.
func (e Endpoint) VerifyName() string {
	name := e.ServerName
	if name == "" {
		name = e.Host
	}
	name, _, _ = strings.Cut(name, "%")
	return name
}

// Authority returns what calls and requests name as their server (RFC 3986 section 3.2): VerifyName and the port, with
// IPv6 in brackets.
func (e Endpoint) Authority() string {
	return net.JoinHostPort(e.VerifyName(), strconv.Itoa(int(e.Port)))
}

// String returns the same as Addr, or "none" for the zero value.
func (e Endpoint) String() string {
	if e.Host == "" && e.Port == 0 {
		return "none"
	}
	return e.Addr()
}

// Resolver finds the endpoints of a target.
//
// Resolve looks them up now. It returns at the latest when ctx is done. Endpoints that it returns may be used, also when
// an error comes with them: a *PartialError says what was left out, a *StaleError that the endpoints are those of an
// earlier lookup. Without an error there is at least one endpoint. The caller owns what it is given. Implementations
// are safe for concurrent use.
type Resolver interface {
	Resolve(ctx context.Context) ([]Endpoint, error)
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// cloneEndpoints copies the addresses too, so that a caller may change what it was given.
func cloneEndpoints(endpoints []Endpoint) []Endpoint {
	clone := slices.Clone(endpoints)
	for i := range clone {
		clone[i].Addrs = slices.Clone(clone[i].Addrs)
	}
	return clone
}

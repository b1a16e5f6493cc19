// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/resolver"
)

var (
	errOtherName  = errors.New("its ServerName is not that of the endpoint's first address")
	errSecondName = errors.New("it is a name beside other addresses of the endpoint")
	errNoPort     = errors.New("it is not of the form host:port, with IPv6 in brackets")
)

// fromState makes endpoints of a state, with a *PartialError where some of it was left out.
func fromState(source string, state resolver.State) ([]Endpoint, error) {
	var found []grpcEndpoint
	partial := &PartialError{Name: source}
	for i, given := range stateEndpoints(state) {
		endpoint, faults := fromEndpoint(given)
		for _, f := range faults {
			partial.Dropped++
			if len(partial.Faults) < maxFaults {
				partial.Faults = append(partial.Faults, fmt.Errorf("endpoint %d: %w", i+1, f))
			}
		}
		if endpoint.port != 0 {
			found = append(found, endpoint)
		}
	}
	endpoints := identify(found)
	if partial.Dropped == 0 {
		return endpoints, nil
	}
	return endpoints, partial
}

// stateEndpoints returns the endpoints of a state; addresses alone are one endpoint each.
func stateEndpoints(state resolver.State) []resolver.Endpoint {
	if len(state.Endpoints) > 0 {
		return state.Endpoints
	}
	endpoints := make([]resolver.Endpoint, 0, len(state.Addresses))
	for _, address := range state.Addresses {
		endpoints = append(endpoints, resolver.Endpoint{
			Addresses:  []resolver.Address{address},
			Attributes: address.BalancerAttributes, //nolint:staticcheck // that is where addresses alone have their weight
		})
	}
	return endpoints
}

// grpcEndpoint is an endpoint before it is decided which of its names identifies it.
type grpcEndpoint struct {
	hostPort // the first IP address, or else the first name

	addrs  []netip.AddrPort // empty when there is only a name
	weight uint32
}

// fromEndpoint reads the addresses of an endpoint. The port is 0 when none is of use. IP addresses go before names, of
// which an endpoint can hold only one.
func fromEndpoint(given resolver.Endpoint) (grpcEndpoint, []error) {
	var faults []error
	var read []hostPort
	var addrs []netip.AddrPort
	for i, address := range given.Addresses {
		one, err := readAddress(address)
		if err == nil && len(read) > 0 && one.serverName != read[0].serverName {
			err = errOtherName
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("address %d: %w", i+1, err))
			continue
		}
		one.position = i + 1
		read = append(read, one)
		if one.addr.IsValid() {
			addrs = append(addrs, netip.AddrPortFrom(one.addr, one.port))
		}
	}
	if len(read) == 0 {
		return grpcEndpoint{}, faults
	}
	first := read[max(0, slices.IndexFunc(read, func(h hostPort) bool { return h.addr.IsValid() }))]
	for _, other := range read {
		if !other.addr.IsValid() && other.position != first.position {
			faults = append(faults, fmt.Errorf("address %d: %w", other.position, errSecondName))
		}
	}
	return grpcEndpoint{hostPort: first, addrs: addrs, weight: weight.FromEndpoint(given).Weight}, faults
}

// hostPort is one address that was read.
type hostPort struct {
	serverName string // canonical; empty when the resolver gave none
	host       string
	absolute   bool       // host is a name and had a final dot
	addr       netip.Addr // the zero value when host is a name
	port       uint16
	position   int // among the addresses of the endpoint
}

// readAddress reads an address of a TCP server. Its errors do not quote it: it may be anything.
func readAddress(address resolver.Address) (hostPort, error) {
	host, digits, err := net.SplitHostPort(address.Addr)
	if err != nil {
		return hostPort{}, errNoPort
	}
	var read hostPort
	if read.port, err = parsePort(":" + digits); err != nil {
		return hostPort{}, fmt.Errorf("it %w", err)
	}
	if host == "" {
		host = "localhost" // as package net has it
	}
	if read.host, read.addr, err = readHost(host); err != nil {
		return hostPort{}, fmt.Errorf("its host %w", err)
	}
	read.absolute = !read.addr.IsValid() && strings.HasSuffix(host, ".")
	if read.serverName, err = readServerName(address.ServerName); err != nil {
		return hostPort{}, fmt.Errorf("its ServerName %w", err)
	}
	return read, nil
}

// readServerName reads a name that may have a port, as authorities do.
func readServerName(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	host, _, err := readHost(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	return host, err
}

// readHost returns the canonical form of a host, and the address when it is one.
func readHost(host string) (string, netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		return addr.String(), addr, nil
	}
	name := canonical(host)
	return name, netip.Addr{}, checkName(name)
}

// identify gives each endpoint its Host: the ServerName, or the host of its address where several endpoints would be
// taken for one server, which then have their ServerName besides. Of endpoints that are the same all the same the first
// one counts.
func identify(found []grpcEndpoint) []Endpoint {
	scale := newScale(found)
	named := make([]Endpoint, len(found))
	type server struct {
		host, name string
		port       uint16
	}
	bearers, known := make(map[string]int, len(found)), make(map[server]bool, len(found))
	for i, f := range found {
		named[i] = Endpoint{Host: f.host, Port: f.port, Addrs: f.addrs, Weight: scale.weight(f.weight), Absolute: f.absolute}
		switch {
		case f.serverName != "" && len(f.addrs) > 0:
			named[i].Host = f.serverName
		case f.serverName != "" && f.serverName != f.host:
			named[i].ServerName = f.serverName // Host is to be looked up
		}
		if same := (server{f.host, f.serverName, f.port}); !known[same] { // a server that stands twice is one bearer
			known[same] = true
			bearers[named[i].Addr()]++
		}
	}
	endpoints := named[:0]
	seen := make(map[string]bool, len(found))
	for i, endpoint := range named {
		if bearers[endpoint.Addr()] > 1 {
			endpoint.Host = found[i].host
			if name := found[i].serverName; name != endpoint.Host {
				endpoint.ServerName = name
			}
		}
		if !seen[endpoint.Addr()] {
			seen[endpoint.Addr()] = true
			endpoints = append(endpoints, endpoint)
		}
	}
	return endpoints
}

// scale brings weights of 32 bits into 16.
type scale struct{ largest uint32 }

func newScale(found []grpcEndpoint) scale {
	var s scale
	for _, f := range found {
		s.largest = max(s.largest, f.weight)
	}
	return s
}

// weight keeps proportions, and no weight becomes none. One that is not set counts as 1 beside others, as grpc-go has
// it; where none is set all are 0.
func (s scale) weight(w uint32) uint16 {
	switch {
	case s.largest == 0:
		return 0
	case s.largest <= math.MaxUint16:
		return uint16(max(1, w)) //nolint:gosec // not above largest
	default:
		return uint16(max(1, uint64(w)*math.MaxUint16/uint64(s.largest))) //nolint:gosec // not above MaxUint16
	}
}

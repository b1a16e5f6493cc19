// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"net"
	"net/netip"

	"google.golang.org/grpc/peer"
)

// source is where a request comes from, as far as limits and reservations tell peers apart: an IPv4 address, or the /64
// of an IPv6 address, since one machine commonly has a whole /64 to choose from. The zero value stands for all peers
// without an IP address, such as those on a Unix socket.
type source struct {
	prefix netip.Prefix
}

// subnetBits is how much of an IPv6 address tells one peer from another.
const subnetBits = 64

func sourceOf(address netip.Addr) source {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = subnetBits
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return source{}
	}
	return source{prefix: prefix}
}

// String names the address, or the network where that is what counts.
func (s source) String() string {
	switch {
	case !s.prefix.IsValid():
		return "no IP address"
	case s.prefix.IsSingleIP():
		return s.prefix.Addr().String()
	default:
		return s.prefix.String()
	}
}

// sourceOfText takes what net/http knows of its peer. Forwarding headers are not looked at: anybody can write them.
func sourceOfText(hostPort string) source {
	address, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return source{}
	}
	return sourceOf(address.Addr())
}

func sourceOfAddr(address net.Addr) source {
	if addrPort := addrPortOf(address); addrPort.IsValid() {
		return sourceOf(addrPort.Addr())
	}
	return source{}
}

// addrPortOf returns an IP address and a port, from whatever type they come in, or the zero value.
func addrPortOf(address net.Addr) netip.AddrPort {
	if address == nil {
		return netip.AddrPort{}
	}
	addrPort := netip.AddrPort{}
	if tcp, ok := address.(*net.TCPAddr); ok {
		addrPort = tcp.AddrPort()
	} else if parsed, err := netip.ParseAddrPort(address.String()); err == nil {
		addrPort = parsed
	}
	return netip.AddrPortFrom(addrPort.Addr().Unmap(), addrPort.Port())
}

// sourceOfCall takes the peer that grpc-go put into a call's context. On its native transport that is a TCP address; on a
// call that came through ServeHTTP it is the text that net/http had.
func sourceOfCall(ctx context.Context) source {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return source{}
	}
	return sourceOfAddr(caller.Addr)
}

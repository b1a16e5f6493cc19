// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"

	"github.com/evenkeel-go/evenkeel/connstring"
)

// reach is a connection string with which clients reach the server. It holds no secret. A client on this machine can
// use it as it is, unless the certificate does not allow for that: the note then says so, else it is empty.
func reach(addr net.Addr, certificate *tls.Certificate, plaintext bool) (cs *connstring.ConnString, note string, err error) {
	at := func(host string) (*connstring.ConnString, error) {
		return connstring.New(connstring.ConnString{
			Hosts:             []connstring.Host{{Name: host, Port: portOf(addr)}},
			SkipTLSValidation: certificate == nil && !plaintext,
		})
	}
	if certificate == nil {
		cs, err = at(hostOf(addr))
		return cs, "", err
	}
	for _, host := range localHosts(addr) {
		if certificate.Leaf.VerifyHostname(host) == nil {
			cs, err = at(host)
			return cs, "", err
		}
	}
	for _, name := range certifiedHosts(certificate.Leaf) {
		// A wildcard is a name that no client can dial.
		if cs, err = at(name); err == nil {
			return cs, fmt.Sprintf("the certificate does not name this machine: clients reach the server where %s leads to it", name), nil
		}
	}
	cs, err = at(hostOf(addr))
	if len(certifiedHosts(certificate.Leaf)) == 0 {
		return cs, "", err // the log tells that there are none
	}
	return cs, "the certificate names no host that the connection string could: clients refuse it under the name shown", err
}

// certifiedHosts are the hosts that a certificate names, names first.
func certifiedHosts(leaf *x509.Certificate) []string {
	hosts := append([]string(nil), leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// hostOf is the host under which this machine reaches an address that it listens on.
func hostOf(addr net.Addr) string { return localHosts(addr)[0] }

// localHosts are the hosts under which this machine reaches an address that it listens on, the best first. It asks no
// name server.
func localHosts(addr net.Addr) []string {
	const everywhere = "localhost"
	listening, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return []string{everywhere}
	}
	ip := listening.Addr().Unmap()
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	switch {
	case ip == v4 || ip == v6:
		return []string{ip.String(), everywhere}
	case !ip.IsUnspecified():
		return []string{ip.String()}
	}
	hosts := []string{everywhere, v4.String()}
	if ip.Is6() {
		hosts = append(hosts, v6.String())
	}
	return append(hosts, interfaceAddresses(ip.Is6())...)
}

// interfaceAddresses are the addresses of this machine that others may know it by, those of IPv6 only where asked for.
func interfaceAddresses(withIPv6 bool) []string {
	prefixes, err := net.InterfaceAddrs()
	if err != nil {
		return nil // fewer hosts to choose from
	}
	var found []string
	for _, p := range prefixes {
		prefix, err := netip.ParsePrefix(p.String())
		if err == nil && prefix.Addr().IsGlobalUnicast() && (withIPv6 || prefix.Addr().Is4()) {
			found = append(found, prefix.Addr().String())
		}
	}
	return found
}

// portOf is the port of an address; 0 where it has none.
func portOf(addr net.Addr) uint16 {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return 0
	}
	return ap.Port()
}

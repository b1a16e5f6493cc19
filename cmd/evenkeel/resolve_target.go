// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/discover"
)

// How a name server is said, in a connection string and in a target.
const (
	inString = "srvNameServer"
	inTarget = "dns://SERVER/NAME"
	inSRV    = "srv://SERVER/NAME"
)

// asked is what resolve is to look up.
type asked struct {
	resolver  discover.Resolver
	fixed     bool   // nothing is looked up
	elsewhere string // how another name server is said
}

// readAsked reads a connection string, or a target of a plain gRPC channel.
func readAsked(text string, from source) (asked, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	switch strings.ToLower(scheme) {
	case "dns":
		return readTarget(rest, inTarget, openDNS)
	case "srv":
		return readTarget(rest, inSRV, openSRV)
	}
	cs, err := parseConnString(text, from)
	if err != nil {
		return asked{}, err
	}
	resolver, err := evenkeel.Resolver(cs)
	return asked{resolver: resolver, fixed: !cs.SRV, elsewhere: inString}, err
}

// readTarget reads SERVER/ENDPOINT. Its errors do not quote the target: it may be a connection string with another scheme.
func readTarget(rest, form string, open func(server, endpoint string) (asked, error)) (asked, error) {
	server, endpoint, found := strings.Cut(rest, "/")
	endpoint = strings.TrimSuffix(endpoint, "/")
	var opened asked
	err := errors.New("there are no three slashes before the name")
	switch {
	case found && strings.ContainsAny(rest, "@?#"):
		err = errors.New("a target has neither credentials nor options")
	case found:
		opened, err = open(server, endpoint)
	}
	if err != nil {
		return asked{}, usage("the target cannot be read: %s; write it as %s or, for the name servers of the system, %s",
			sentence(err), form, strings.Replace(form, "SERVER", "", 1))
	}
	opened.elsewhere = form
	return opened, nil
}

func openDNS(server, endpoint string) (asked, error) {
	host, port, err := splitEndpoint(endpoint)
	if err != nil {
		return asked{}, err
	}
	dns, err := discover.NewDNS(discover.DNSConfig{Name: host, Port: port, NameServer: server})
	_, notAddress := netip.ParseAddr(host)
	return asked{resolver: dns, fixed: notAddress == nil}, err
}

// splitEndpoint splits host[:port], of which an IPv6 address has brackets or no port.
func splitEndpoint(endpoint string) (host string, port uint16, err error) {
	if _, err := netip.ParseAddr(strings.Trim(endpoint, "[]")); err == nil {
		return strings.Trim(endpoint, "[]"), discover.DefaultPort, nil
	}
	colon := strings.LastIndexByte(endpoint, ':')
	if colon < 0 {
		return endpoint, discover.DefaultPort, nil
	}
	number, err := strconv.ParseUint(endpoint[colon+1:], 10, 16)
	if err != nil || number == 0 {
		return "", 0, errors.New("the port is not a number from 1 to 65535")
	}
	return strings.Trim(endpoint[:colon], "[]"), uint16(number), nil
}

func openSRV(server, endpoint string) (asked, error) {
	return openSRVWith(discover.SystemResolver(), server, endpoint)
}

// openSRVWith has the addresses that the name server does not have looked up by another one.
func openSRVWith(system *net.Resolver, server, endpoint string) (asked, error) {
	labels := strings.SplitN(endpoint, ".", 3)
	if len(labels) < 3 {
		return asked{}, errors.New("the name is not of the form _SERVICE._PROTO.NAME")
	}
	resolver, err := discover.SRV(discover.SRVConfig{
		Service: labels[0] + "." + labels[1], Name: labels[2], NameServer: server,
	})
	if err != nil {
		return asked{}, err
	}
	// A channel leaves out what has no address, and so does what shows what a channel finds.
	return asked{resolver: discover.WithAddrs(discover.AddrsConfig{Resolver: resolver, Name: endpoint, System: system})}, nil
}

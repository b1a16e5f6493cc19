// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
)

// The schemes of targets, as grpc-go has them: in lower case.
const (
	schemeDNS          = "dns"
	schemeSRV          = "srv"
	schemeChronicle    = "chronicle"
	schemeChronicleSRV = "chronicle+srv"
	schemeResolver     = "evenkeel"
)

// defaultPort is that of the dns resolver of grpc-go.
const defaultPort = "443"

// lookupTimeout caps a whole lookup.
const lookupTimeout = 5 * time.Second

// source is where the endpoints of a target come from.
type source struct {
	// target is how the source is called in news and metrics, and by what it is remembered. It holds no secret.
	target   string
	resolver discover.Resolver
	// fixed says that there is nothing to look up, ever.
	fixed bool
	// named says that endpoints have names of their own, which TLS checks; else it checks the name of the target.
	named bool
	// txt is whose service config is looked up in DNS, at nameServer; empty means that there is none.
	txt, nameServer string
}

// openDNS makes a source of "dns://server/host:port". The host is no IP address.
func openDNS(target resolver.Target, host, port string) (source, error) {
	number, err := portNumber(port)
	if err != nil {
		return source{}, err
	}
	dns, err := discover.NewDNS(discover.DNSConfig{
		Name: host, Port: number, NameServer: target.URL.Host, Timeout: lookupTimeout,
	})
	if err != nil {
		return source{}, err
	}
	return source{target: target.String(), resolver: dns, txt: host, nameServer: target.URL.Host}, nil
}

// splitTarget splits "host:port" as the dns resolver of grpc-go does: without a port it is 443, without a host localhost.
func splitTarget(endpoint string) (host, port string, err error) {
	if _, err := netip.ParseAddr(endpoint); err == nil {
		return endpoint, defaultPort, nil
	}
	if host, port, err = net.SplitHostPort(endpoint); err != nil {
		host, port, err = net.SplitHostPort(endpoint + ":" + defaultPort)
	}
	switch {
	case endpoint == "" || err != nil:
		return "", "", errors.New("the target is not of the form host or host:port")
	case port == "":
		return "", "", errors.New("the target has a colon and no port")
	case host == "":
		host = "localhost"
	}
	return host, port, nil
}

// portNumber reads a port, or the name of a service that the system knows.
func portNumber(port string) (uint16, error) {
	if number, err := strconv.ParseUint(port, 10, 16); err == nil && number > 0 {
		return uint16(number), nil
	}
	number, err := discover.SystemResolver().LookupPort(context.Background(), "tcp", port)
	if err != nil || number == 0 {
		return 0, errors.New("the target has a port that is neither a number from 1 to 65535 nor a service")
	}
	return uint16(number), nil //nolint:gosec // LookupPort returns what fits
}

// openSRV makes a source of "srv://server/_service._proto.name".
func openSRV(target resolver.Target, system *net.Resolver) (source, error) {
	if hasCredentials(target) {
		return source{}, errCredentials
	}
	service, name, err := splitService(target.Endpoint())
	if err != nil {
		return source{}, err
	}
	srv, err := discover.SRV(discover.SRVConfig{Name: name, Service: service, NameServer: target.URL.Host})
	if err != nil {
		return source{}, err
	}
	return source{target: target.String(), resolver: withAddrs(target.String(), srv, system), named: true}, nil
}

func withAddrs(target string, inner discover.Resolver, system *net.Resolver) discover.Resolver {
	return discover.WithAddrs(discover.AddrsConfig{Resolver: inner, Name: target, System: system})
}

// splitService splits "_service._proto.name".
func splitService(endpoint string) (service, name string, err error) {
	labels := strings.SplitN(endpoint, ".", 3)
	if len(labels) < 3 || !isService(labels[0]) || !isService(labels[1]) {
		return "", "", errors.New("the target is not of the form srv:///_service._proto.name")
	}
	return labels[0] + "." + labels[1], labels[2], nil
}

func isService(label string) bool { return len(label) > 1 && label[0] == '_' }

var (
	errCredentials = errors.New("credentials in the target of a channel: give them to grpc-go as transport or per-RPC credentials")
	errOptions     = errors.New("options in the target of a channel: only srvNameServer of chronicle+srv is allowed")
)

// openChronicle makes a source of a connection string.
func openChronicle(text string, system *net.Resolver) (source, error) {
	parsed, err := connstring.Parse(text)
	if err != nil {
		return source{}, fmt.Errorf("the target is no connection string: %w", err)
	}
	if err := checkOptions(parsed); err != nil {
		return source{}, err
	}
	if parsed.SRV {
		srv, err := discover.SRV(discover.SRVConfig{Name: parsed.Hosts[0].Name, NameServer: parsed.SRVNameServer})
		if err != nil {
			return source{}, err
		}
		return source{target: parsed.String(), resolver: withAddrs(parsed.String(), srv, system), named: true}, nil
	}
	endpoints := make([]discover.Endpoint, len(parsed.Hosts))
	fixed := true
	for i, host := range parsed.Hosts {
		endpoints[i] = discover.Endpoint{Host: host.Name, Port: host.Port}
		if addr, err := netip.ParseAddr(host.Name); err == nil {
			endpoints[i].Addrs = []netip.AddrPort{netip.AddrPortFrom(addr, host.Port)}
		} else {
			endpoints[i].Host = strings.TrimSuffix(host.Name, ".")
			endpoints[i].Absolute = endpoints[i].Host != host.Name
			fixed = false
		}
	}
	return source{
		target: parsed.String(), resolver: withAddrs(parsed.String(), discover.Static(endpoints...), system), named: true, fixed: fixed,
	}, nil
}

// checkOptions refuses all that is not discovery: a channel would have to ignore it, which is worse.
func checkOptions(parsed *connstring.ConnString) error {
	allowed, err := connstring.New(connstring.ConnString{Hosts: parsed.Hosts, SRV: parsed.SRV, SRVNameServer: parsed.SRVNameServer})
	switch {
	case parsed.AuthMode() != connstring.AuthModeNone:
		return errCredentials
	case err != nil || !allowed.Equal(parsed):
		return errOptions
	}
	return nil
}

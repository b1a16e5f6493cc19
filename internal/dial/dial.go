// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/evenkeel-go/evenkeel/discover"
)

// Dialer opens TCP connections to endpoints. The zero value is ready for use. It is safe for concurrent use.
type Dialer struct {
	// Resolver looks names up; nil means discover.SystemResolver. A lookup returns when its context ends whatever the
	// resolver does, but what it started lives on until its Dial hook has heeded the context as well.
	Resolver *net.Resolver
	// Proxy leads connections through a proxy; nil means none.
	Proxy *Proxy

	// connect replaces the TCP connect in tests; nil means connectTCP.
	connect func(context.Context, netip.AddrPort) (net.Conn, error)
}

// Dial connects to the endpoint on one of its addresses: on endpoint.Addrs when there are any, else on those that
// Lookup finds. It starts with the first, alternates between IPv6 and IPv4, starts the next one when 250 ms have passed
// or the one before has failed, and returns the first connection (RFC 8305 section 5).
//
// The connection is the plain *net.TCPConn; its RemoteAddr says which address won. The caller must close it. Dial ends
// with ctx; it sets no limit of its own. The error joins one cause for each address tried.
//
// Where the endpoint is Proxied all of that holds for the proxy, which is given the name: endpoint.Addrs are not used,
// RemoteAddr is the proxy's, and a connection through a proxy that speaks TLS is a *tls.Conn. An error is a *ProxyError
// then.
func (d Dialer) Dial(ctx context.Context, endpoint discover.Endpoint) (net.Conn, error) {
	if proxy := d.Proxy.choose(endpoint); proxy != nil {
		return d.tunnel(ctx, proxy, endpoint)
	}
	return d.direct(ctx, endpoint)
}

// Proxied says that connections to the endpoint go through a proxy, so that nobody here knows its address.
func (d Dialer) Proxied(endpoint discover.Endpoint) bool { return d.Proxy.choose(endpoint) != nil }

func (d Dialer) direct(ctx context.Context, endpoint discover.Endpoint) (net.Conn, error) {
	addrs, err := d.Lookup(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return d.race(ctx, interleave(addrs))
}

// Lookup returns the addresses of the endpoint in the order of preference: endpoint.Addrs when there are any, else the
// address that Host is, else those that the resolver finds for it. It ends with ctx; it sets no limit of its own. The
// caller owns the result, which is not empty when err is nil.
func (d Dialer) Lookup(ctx context.Context, endpoint discover.Endpoint) ([]netip.AddrPort, error) {
	if len(endpoint.Addrs) > 0 {
		addrs := make([]netip.AddrPort, len(endpoint.Addrs))
		for i, addr := range endpoint.Addrs {
			addrs[i] = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		}
		return addrs, nil
	}
	if endpoint.Host == "" || endpoint.Port == 0 {
		return nil, fmt.Errorf("look up %q: an endpoint needs a host and a port", endpoint.Addr())
	}
	if addr, err := netip.ParseAddr(endpoint.Host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(addr.Unmap(), endpoint.Port)}, nil
	}
	// LookupNetIP would lose the zone of a link-local address that the hosts file gives.
	found, err := d.resolver().LookupIPAddr(ctx, endpoint.LookupName())
	if err != nil {
		return nil, d.lookupError(ctx, endpoint.Host, err)
	}
	addrs := make([]netip.AddrPort, 0, len(found))
	for _, ip := range found {
		if addr, ok := netip.AddrFromSlice(ip.IP); ok {
			addrs = append(addrs, netip.AddrPortFrom(addr.Unmap().WithZone(ip.Zone), endpoint.Port))
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("look up %s: no addresses", endpoint.Host)
	}
	return addrs, nil
}

func (d Dialer) resolver() *net.Resolver {
	if d.Resolver != nil {
		return d.Resolver
	}
	return discover.SystemResolver()
}

// lookupError names the host once, and the context's own error when that is why the lookup ended: the resolver hides it
// behind an error of its own when the limit of one exchange strikes at the same time.
func (d Dialer) lookupError(ctx context.Context, host string, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("look up %s: %w: %w", host, cause, err)
	}
	if dnsErr, ok := errors.AsType[*net.DNSError](err); ok && d.Resolver != nil {
		// The server in the error is the one of resolv.conf, also when the resolver asks another one.
		told := *dnsErr
		told.Server = ""
		err = &told
	}
	return fmt.Errorf("look up %s: %w", host, err)
}

func connectTCP(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	var dialer net.Dialer
	// Not DialTCP, whose errors name a local address that nobody asked for.
	return dialer.DialContext(ctx, "tcp", addr.String())
}

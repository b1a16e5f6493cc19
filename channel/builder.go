// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"errors"
	"net/netip"
	"strings"

	"google.golang.org/grpc/resolver"
)

// serviceFrom says who hands the service config to grpc-go.
type serviceFrom int

const (
	// serviceFromOptions: the dial options have it, and the resolver only sends one that DNS changes.
	serviceFromOptions serviceFrom = iota
	// serviceFromResolver: the resolver sends it, for there are no dial options.
	serviceFromResolver
)

// builders makes the builders of all schemes but dns.
func (c *Channel) builders(from serviceFrom) []resolver.Builder {
	builders := []resolver.Builder{
		builder{scheme: schemeSRV, channel: c, from: from},
		&chronicleBuilder{builder{scheme: schemeChronicle, channel: c, from: from}},
		&chronicleBuilder{builder{scheme: schemeChronicleSRV, channel: c, from: from}},
	}
	if c.config.Resolver != nil {
		builders = append(builders, builder{scheme: schemeResolver, channel: c, from: from})
	}
	return builders
}

// builder makes the resolvers of one scheme.
type builder struct {
	scheme  string
	channel *Channel
	from    serviceFrom
}

// Scheme implements resolver.Builder.
func (b builder) Scheme() string { return b.scheme }

// Build implements resolver.Builder, for srv and evenkeel.
func (b builder) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	if b.scheme == schemeResolver && hasCredentials(target) {
		return b.start(source{}, errCredentials, cc, opts)
	}
	if b.scheme == schemeResolver {
		own := borrowed(b.channel.config.Resolver, target.String())
		return b.start(source{target: target.String(), resolver: own, named: true}, nil, cc, opts)
	}
	found, err := openSRV(target, b.channel.system)
	return b.start(found, err, cc, opts)
}

// start starts a resolver of a source. That a target is refused becomes the error of the calls: grpc-go would put the
// target, which may hold a secret, into an error that Build returns.
func (b builder) start(found source, err error, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	if err != nil {
		cc.ReportError(err)
		return refused{}, nil
	}
	return b.channel.start(liveConfig{source: found, cc: cc, from: b.from, noService: opts.DisableServiceConfig})
}

// refused is the resolver of a target that cannot have one.
type refused struct{}

func (refused) ResolveNow(resolver.ResolveNowOptions) {}
func (refused) Close()                                {}

// chronicleBuilder makes the resolvers of connection strings.
type chronicleBuilder struct{ builder }

// Build implements resolver.Builder.
func (b *chronicleBuilder) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	if target.URL.User != nil {
		return b.start(source{}, errCredentials, cc, opts)
	}
	found, err := openChronicle(target.URL.String(), b.channel.system)
	return b.start(found, err, cc, opts)
}

// OverrideAuthority implements resolver.AuthorityOverrider: the path, which is the authority of other targets, is empty
// here. It only counts where an endpoint has no name of its own.
func (b *chronicleBuilder) OverrideAuthority(target resolver.Target) string {
	return chronicleAuthority(target.URL.Host)
}

// chronicleAuthority returns the first host.
func chronicleAuthority(hosts string) string {
	first, _, _ := strings.Cut(hosts, ",")
	return escapeAuthority(first)
}

// dnsBuilder stands for the dns resolver of grpc-go.
type dnsBuilder struct{ builder }

// Build implements resolver.Builder. What is no name is left to grpc-go.
func (b *dnsBuilder) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	endpoint := target.Endpoint()
	if isConnString(endpoint) {
		found, err := openChronicle(withQuery(endpoint, target), b.channel.system)
		return b.start(found, err, cc, opts)
	}
	// No name of a host has an @, so that it is no use either to have grpc-go quote it.
	if hasCredentials(target) || strings.Contains(endpoint, "@") {
		return b.start(source{}, errCredentials, cc, opts)
	}
	host, port, err := splitTarget(endpoint)
	if err != nil || isAddress(host) {
		stock := resolver.Get(schemeDNS)
		if stock == nil {
			return nil, errors.New("there is no dns resolver") // not reached: grpc-go registers it
		}
		return stock.Build(target, cc, opts)
	}
	found, err := openDNS(target, host, port)
	return b.start(found, err, cc, opts)
}

// OverrideAuthority implements resolver.AuthorityOverrider with what grpc-go does for a resolver that does not, save for
// connection strings and other targets that may hold a secret.
func (b *dnsBuilder) OverrideAuthority(target resolver.Target) string {
	endpoint := target.Endpoint()
	switch {
	case isConnString(endpoint) || strings.Contains(endpoint, "@"):
		return "localhost"
	case strings.HasPrefix(endpoint, ":"):
		return "localhost" + escapeAuthority(endpoint)
	default:
		return escapeAuthority(endpoint)
	}
}

// isConnString says whether a name is a connection string. A list of hosts with ports is no URL, and grpc-go takes what
// is no URL for a name to be looked up.
func isConnString(endpoint string) bool {
	scheme, _, found := strings.Cut(endpoint, "://")
	return found && (strings.EqualFold(scheme, schemeChronicle) || strings.EqualFold(scheme, schemeChronicleSRV))
}

// withQuery puts the options back, which were taken off when the whole was read as a URL.
func withQuery(endpoint string, target resolver.Target) string {
	if target.URL.RawQuery == "" && !target.URL.ForceQuery {
		return endpoint
	}
	return endpoint + "?" + target.URL.RawQuery
}

// hasCredentials says whether a target has a user before its server, or a user with a password before its name.
func hasCredentials(target resolver.Target) bool {
	user, _, found := strings.Cut(target.Endpoint(), "@")
	return target.URL.User != nil || found && strings.Contains(user, ":")
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// escapeAuthority escapes what RFC 3986 section 3.2 does not allow in an authority.
func escapeAuthority(authority string) string {
	const upper = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(authority) {
		c := authority[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.~!$&'()*+,;=:[]@", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', upper[c>>4], upper[c&15]})
	}
	return b.String()
}

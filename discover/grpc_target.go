// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
)

var errNoURL = errors.New("is no URL, and is none behind a scheme either")

// parseTarget reads a target for the builder of a scheme. Its errors do not quote the target, which may hold a secret.
func parseTarget(scheme, target string) (resolver.Target, error) {
	parsed, err := url.Parse(target)
	if err == nil && parsed.Scheme != "" && strings.EqualFold(parsed.Scheme, scheme) {
		return resolver.Target{URL: *parsed}, nil
	}
	// To a URL, "host:35000" has a scheme as well.
	other, _, has := strings.Cut(target, "://")
	switch {
	case has && err == nil && strings.EqualFold(other, parsed.Scheme):
		return resolver.Target{}, fmt.Errorf("has the scheme %q, and the builder is for %q", parsed.Scheme, scheme)
	case has && err != nil:
		return resolver.Target{}, errNoURL
	}
	if parsed, err = url.Parse(scheme + ":///" + target); err != nil {
		return resolver.Target{}, errNoURL
	}
	return resolver.Target{URL: *parsed}, nil
}

// shownTarget is the target as errors show it: without user, password and query.
func shownTarget(target resolver.Target) string {
	endpoint := target.Endpoint()
	if at := strings.LastIndexByte(endpoint, '@'); at >= 0 {
		endpoint = "…" + endpoint[at:]
	}
	return target.URL.Scheme + "://" + target.URL.Host + "/" + endpoint
}

// buildOptions fills in what grpc-go would.
func buildOptions(options resolver.BuildOptions, builder resolver.Builder, target resolver.Target) resolver.BuildOptions {
	options.DisableServiceConfig = true
	if options.MetricsRecorder == nil {
		options.MetricsRecorder = stats.UnimplementedMetricsRecorder{}
	}
	if options.Authority != "" {
		return options
	}
	if overrider, ok := builder.(resolver.AuthorityOverrider); ok {
		options.Authority = overrider.OverrideAuthority(target)
	} else {
		options.Authority = authority(target.Endpoint())
	}
	return options
}

// authority makes an authority of the endpoint part of a target: what has no place in one (RFC 3986 section 3.2) is
// escaped, and a port alone is one of this machine.
func authority(endpoint string) string {
	if strings.HasPrefix(endpoint, ":") {
		endpoint = "localhost" + endpoint
	}
	const allowed = "-_.~!$&'()*+,;=:[]@"
	var b strings.Builder
	for _, c := range []byte(endpoint) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(allowed, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

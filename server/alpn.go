// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"crypto/tls"
	"slices"
)

// Application protocols of TLS ALPN (RFC 7301) that the port speaks.
const (
	protoHTTP10 = "http/1.0" // what curl offers when told to speak HTTP/1.0
	protoHTTP11 = "http/1.1"
	protoHTTP2  = "h2"
)

// offersOnlyHTTP2 tells gRPC clients from HTTP clients by what they offer in their ClientHello. A gRPC client speaks HTTP/2
// and nothing else, so it has no reason to offer HTTP/1.1; an HTTP client that can speak HTTP/2 offers both, since it
// does not know what it will find.
func offersOnlyHTTP2(offer []string) bool {
	return slices.Contains(offer, protoHTTP2) && !slices.Contains(offer, protoHTTP11) && !slices.Contains(offer, protoHTTP10)
}

// routingConfig returns the TLS settings of the port. While a handshake goes on it notes on the connection whether the
// client offered HTTP/2 alone. A GetConfigForClient of the user's is asked first and its answer kept.
func routingConfig(base *tls.Config) *tls.Config {
	config := portConfig(base)
	chosen := config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if c, ok := hello.Conn.(*conn); ok {
			c.onlyHTTP2 = offersOnlyHTTP2(hello.SupportedProtos)
		}
		if chosen == nil {
			return nil, nil // go on with this configuration
		}
		other, err := chosen(hello)
		if other == nil || err != nil {
			return nil, err
		}
		return portConfig(other), nil
	}
	return config
}

// portConfig is a copy of a TLS configuration with what the port needs: its protocols, and TLS 1.2 at least.
func portConfig(base *tls.Config) *tls.Config {
	config := base.Clone()
	config.NextProtos = []string{protoHTTP2, protoHTTP11, protoHTTP10}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	return config
}

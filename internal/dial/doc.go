// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package dial opens TCP connections to endpoints: it finds the addresses of an endpoint and races them as Happy
// Eyeballs does. Probes, tokens and gRPC connections are all dialled here, so that one rule decides which address of a
// server a client ends up on.
//
//	var dialer dial.Dialer
//	conn, err := dialer.Dial(ctx, discover.Endpoint{Host: "node1.example", Port: 35000})
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//	fmt.Println("connected on", conn.RemoteAddr())
//
// # Configuration
//
// The zero [Dialer] is ready: it asks the system's resolver, and uses no proxy. [Dialer.Resolver] replaces that one;
// [ProxyFromEnvironment] makes a [Dialer.Proxy].
//
// # Errors
//
// A failed dial joins one error for each address it tried, each naming its address. A failed lookup names the host. An
// ended context matches context.Canceled or context.DeadlineExceeded. What goes wrong on the way through a proxy is a
// [*ProxyError], which names the proxy and never shows its credentials.
//
// # Concurrency
//
// A Dialer is a value and safe for concurrent use. Each call ends what it started before it returns: losers of the race
// are cancelled, closed and waited for.
//
// # Specification
//
// RFC 8305: section 4 (families alternate) and section 5 (attempts 250 ms apart). RFC 2782 for the whole names of SRV
// targets. RFC 9110 section 9.3.6 for CONNECT.
package dial

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package certerr words the errors of TLS about certificates: which certificate was refused, why, and for which name.
// Package x509 says why, and leaves the rest to its caller.
//
//	if err := conn.HandshakeContext(ctx); err != nil {
//		return certerr.Explain(err, "node1.example")
//	}
//
// What a server says at last is easily lost with the connection: [HearOut].
//
// # Configuration
//
// There is none.
//
// # Errors
//
// [Explain] returns an [*Error] that wraps what it was given. [ErrClient] is found in those of a server that refuses the
// client's certificate, or misses one.
//
// # Concurrency
//
// All functions are safe for concurrent use.
//
// # Specification
//
// RFC 5280 section 6 for what is checked, RFC 6125 for names, RFC 8446 section 6 for alerts.
package certerr

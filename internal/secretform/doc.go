// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package secretform knows what a secret looks like in a text: as it is, percent-encoded, quoted as JSON, Go and C do it,
// in hexadecimal digits and inside base64. It takes
// secrets out of texts that somebody else wrote who knows them, and finds them where they must not be.
//
//	text = secretform.Scrub(text, token)
//
// # Configuration
//
// There is none.
//
// # Errors
//
// There are none.
//
// # Concurrency
//
// All functions are safe for concurrent use.
//
// # Specification
//
// RFC 3986 section 2.1 for percent-encoding, RFC 8259 section 7 for JSON, RFC 4648 for base64.
package secretform

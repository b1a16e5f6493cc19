// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package extension has the names and shapes of what our servers and clients say to each other over HTTP beyond the stock
// protocol. A server answers with it, and a client reads it:
//
//	w.Header().Set(extension.ArrivalRate, extension.FormatRate(rate))
//	rate, said := extension.Rate(response.Header)
//
// # Configuration
//
// None.
//
// # Errors
//
// What cannot be meant is taken for not said: a client works without all of it.
//
// # Concurrency
//
// There are functions only.
//
// # Specification
//
// docs/protocol.md, "Extensions".
package extension

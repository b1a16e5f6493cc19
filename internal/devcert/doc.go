// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package devcert makes certificates on the fly: one for a server that was given none, and a small certificate authority
// for tests and demonstrations. Nothing is written to disk and nothing is kept between two starts.
//
//	certificate, err := devcert.New("127.0.0.2")
//	if err != nil {
//		return err
//	}
//	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
//
// # Configuration
//
// Keys are ECDSA P-256, half the cost of an RSA handshake. Certificates are valid from a day ago to a year ahead, as
// time.Now sees it, so they also hold inside a testing/synctest bubble, where it is the year 2000.
//
// # Errors
//
// A name that can stand in no certificate is an error; the rest can fail only when the system has no randomness.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use.
//
// # Specification
//
// RFC 5280. The subject and the alternative names of New are those of a stock server's development certificate.
package devcert

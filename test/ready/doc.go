// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package ready compares how long evenkeel.Dial takes with the least that the same steps take when they are written out.
// It has tests only, and is apart from the other suites so that nothing runs beside what it measures.
//
//	go test -v ./test/ready
//
// # Configuration
//
// None. There is no jitter, and the servers are this process's own, on loopback with TLS.
//
// # Errors
//
// The test fails when a session takes much longer than its steps do; it logs the figures in any case.
//
// # Concurrency
//
// One connection is made at a time, in turn the one way and the other.
//
// # Specification
//
// The steps are those of docs/protocol.md: counts, reservation, Connect, and the answer to the first keep-alive.
package ready

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package need is for tests that need something of the machine they run on.
//
//	need.IPv6(t)
//
// # Configuration
//
// The environment variable CI, set to true, says that everything is to be there: what is missing fails the test then, and
// skips it otherwise.
//
// # Errors
//
// The tests are told by their testing.TB.
//
// # Concurrency
//
// The functions may be called concurrently, each from the goroutine of its test.
//
// # Specification
//
// None.
package need

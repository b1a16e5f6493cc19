// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package leaks opens and closes connections in every way that they can fail, and counts what is left. It has tests only,
// and is apart from the other suites since it counts the goroutines and file descriptors of its whole process.
//
// # Configuration
//
// None. File descriptors are counted on Linux.
//
// # Errors
//
// A test that fails names the goroutines or descriptors that were left.
//
// # Concurrency
//
// Nothing runs in parallel with a test that counts.
//
// # Specification
//
// Close ends everything that a Conn started, within 100 ms, whatever it is doing.
package leaks

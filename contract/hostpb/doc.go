// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package hostpb is the generated code of proto/host.proto: the service Server, which says what a server is. See package
// contract for how to use it and how it is made.
//
// # Configuration
//
// None.
//
// # Errors
//
// Calls return gRPC status errors.
//
// # Concurrency
//
// Clients are safe for concurrent use; messages may be read concurrently as long as nobody writes to them.
//
// # Specification
//
// Chronicle's package Cratis.Chronicle.Contracts.Host.
package hostpb

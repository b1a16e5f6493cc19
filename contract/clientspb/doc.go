// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package clientspb is the generated code of proto/clients.proto: the ConnectionService, with which clients announce
// themselves and stay known. See package contract for how to use it and how it is made.
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
// Chronicle's package Cratis.Chronicle.Contracts.Clients.
package clientspb

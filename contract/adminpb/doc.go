// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package adminpb is the generated code of proto/admin.proto: the service Admin, which takes commands to a server of ours
// that runs. See package contract for how it is made, and server.Registry.RegisterAdmin for the server's side.
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
// Ours alone; docs/protocol.md has it in words.
package adminpb

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package registry keeps the descriptors of the generated contract away from the registries that the whole program
// shares.
//
// Protobuf's Go runtime panics at start when two packages register the same full name globally. A program may well link
// Evenkeel together with another Chronicle client, whose generated code has the same names as ours: they are the names
// on the wire. So the generated packages register here.
//
// # Configuration
//
// None: contract/generate.sh makes the generated code name these registries.
//
// # Errors
//
// Look-ups return protoregistry.NotFound.
//
// # Concurrency
//
// The registries are written during package initialisation only and may be read concurrently afterwards.
package registry

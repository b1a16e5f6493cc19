// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package server is the server half: a registry of connected clients, which tells clients how busy a server is and keeps
// track of who is connected, and a server that has it on one TLS port.
//
// Embedded in a gRPC server and a mux that exist already, it is three lines:
//
//	registry := server.NewRegistry(server.RegistryConfig{Name: "node1", Version: "1.0.0"})
//	registry.Register(grpcServer)
//	mux.Handle("/", registry.Handler())
//
// As a server of its own:
//
//	s, err := server.New(server.Config{})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	return s.Serve(listener)
//
// To end it in an orderly way call Drain: it moves the clients to other servers first, and Serve returns.
//
// A server without the session protocol is counted by its connections, with ConnCounter.
//
// # Configuration
//
// RegistryConfig and Config; their zero values are usable, and each field says its default. A server without a
// certificate makes one for development. Plaintext has to be asked for.
//
// Whoever embeds the registry in a grpc.Server of his own should give it a keepalive.EnforcementPolicy with a MinTime below
// 10 s and PermitWithoutStream: grpc-go cuts off clients that ping a connection without traffic, such as ours without a
// session; and keepalive.ServerParameters, or clients that vanish without a word stay for hours.
// The bounds of Config, on connections and HTTP requests, are a Server's; those of RegistryConfig hold in any server, but
// only a Server knows when a list of clients has been written, and cuts off who does not read it.
//
// # Errors
//
// New returns all faults of a configuration, joined. Serve returns the listener's error, or ErrClosed. A Connect stream
// that the server ends has a trailer with the reason; see package contract. Drain says which clients did not leave in time.
//
// # Concurrency
//
// A Registry and a Server are safe for concurrent use. A Server owns its goroutines; Close ends them, within 100 ms. A
// Registry has those of its connections to peers, if there are any, and its Close ends them.
//
// # Specification
//
// Chronicle's connection protocol: ConnectionService over gRPC, and the anonymous paths /connections/count,
// /connections/reserve and /health over HTTP. ALPN is RFC 7301.
package server

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package evenkeel keeps a gRPC client connected to the right server of a cluster.
//
// A Conn finds the servers that a connection string names, puts itself on one of them, proves that the session works,
// watches it, and moves to another server when it is lost. It is a [google.golang.org/grpc.ClientConnInterface], so
// generated stubs work on it as they do on a *grpc.ClientConn:
//
//	conn, err := evenkeel.Dial(ctx, "chronicle+srv://cluster.example.com")
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//	client := hostpb.NewServerClient(conn)
//	info, err := client.GetVersionInfo(ctx, &emptypb.Empty{})
//
// # Configuration
//
// The connection string says where the servers are and how one is picked (package connstring). What a string cannot
// hold, such as a TLS configuration or a callback, is an [Option]. [Dial] waits for the first session; [New] returns at
// once and connects in the background.
//
// # Errors
//
// Calls fail with gRPC status errors. A call that a lost session cut off, or that found no session, fails with
// Unavailable; errors.As finds the typed cause in it. Canceled is returned only when the caller cancelled or closed.
// [Dial] returns an [*AttemptError] that names every server it tried and the [Step] at which each one failed.
//
// # Concurrency
//
// A Conn is safe for concurrent use. It owns its goroutines; Close ends and awaits them. The callback of [WithEvents]
// runs on one goroutine of its own, in the order of the events, and can neither block nor end the connection.
//
// # Specification
//
// The session is that of Chronicle's ConnectionService: a Connect stream on which the server sends a keep-alive each
// second, each of which the client answers with a unary ConnectionKeepAlive. See docs/protocol.md.
package evenkeel

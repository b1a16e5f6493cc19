// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package contract holds the wire contract of the session protocol: the .proto files under proto, and the code
// generated from them in the packages clientspb (who is connected) and hostpb (which server this is).
//
//	client := clientspb.NewConnectionServiceClient(conn)
//	stream, err := client.Connect(ctx, &clientspb.ConnectRequest{ConnectionId: id})
//	if err != nil {
//		return err
//	}
//	keepAlive, err := stream.Recv()
//	if err != nil {
//		return err
//	}
//	_, err = client.ConnectionKeepAlive(ctx, keepAlive)
//
// A client's contract is not compared with a server's yet.
//
// # Configuration
//
// None. The messages register in a registry of our own and not in protobuf's global one, so that a program can link
// another implementation of the same names. Whoever needs a descriptor takes it from the message or from
// clientspb.File_clients_proto and hostpb.File_host_proto.
//
// # Errors
//
// The packages have no errors of their own; calls return gRPC status errors.
//
// # Concurrency
//
// Clients are safe for concurrent use; messages may be read concurrently as long as nobody writes to them.
//
// # Specification
//
// The services and field numbers are those of Chronicle's packages Cratis.Chronicle.Contracts.Clients and
// Cratis.Chronicle.Contracts.Host.
package contract

//go:generate ./generate.sh

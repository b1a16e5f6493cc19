// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package contract holds the wire contract of the session protocol: the .proto files under proto, and the code
// generated from them in the packages clientspb (who is connected), hostpb (which server this is) and adminpb (commands to
// a server of ours).
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
// Beside that it reads and compares contracts, which is how a client learns before its first call that a server lacks
// something:
//
//	needed, err := contract.New(shoppb.File_shop_proto)
//	if err != nil {
//		return err
//	}
//	offered, err := contract.Parse(descriptorSet)
//	if err != nil {
//		return err
//	}
//	return contract.Compare(needed, offered, contract.SharedServices).Err()
//
// A descriptor set and a schema text may come from anybody. Reading them takes bounded time and memory, and what is
// reported of them is bounded and made plain.
//
// # Configuration
//
// None. The messages register in a registry of our own and not in protobuf's global one, so that a program can link
// another implementation of the same names. Whoever needs a descriptor takes it from the message or from
// clientspb.File_clients_proto and hostpb.File_host_proto.
//
// # Errors
//
// Calls return gRPC status errors. What cannot be read is an error that says why, with the line of a text. A contract that
// does not fit is an *IncompatibleError, in which errors.Is finds ErrIncompatible.
//
// # Concurrency
//
// A Contract is never changed. Clients are safe for concurrent use; messages may be read concurrently as long as nobody
// writes to them.
//
// # Specification
//
// The services and field numbers are those of Chronicle's packages Cratis.Chronicle.Contracts.Clients and
// Cratis.Chronicle.Contracts.Host. Descriptor sets are google/protobuf/descriptor.proto; schemas are proto3 source text. What
// counts as a difference is written down in docs/protocol.md.
package contract

//go:generate ./generate.sh

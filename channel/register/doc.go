// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package register makes targets of the schemes srv, chronicle and chronicle+srv known to every channel of grpc-go in the
// process. It is imported for that alone:
//
//	import _ "github.com/evenkeel-go/evenkeel/channel/register"
//
// Everything has its defaults, and the policy is evenkeel_round_robin. The service config that names it is the resolver's
// here, and so goes before that of grpc.WithDefaultServiceConfig. The dns resolver of grpc-go is left alone, since it
// belongs to the whole process: channels that shall have ours get it from [channel.Channel.DialOptions], which are the
// better way for the other schemes as well.
//
// A chronicle target with several hosts and ports is no URL, so that grpc-go takes it for the name of a host: it needs
// the dial options.
//
// # Configuration
//
// There is none.
//
// # Errors
//
// As in package channel.
//
// # Concurrency
//
// The registry of grpc-go is written to before main begins.
//
// # Specification
//
// The naming document of gRPC.
package register

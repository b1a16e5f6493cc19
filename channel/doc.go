// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package channel keeps the channels of grpc-go supplied with endpoints and shares calls among them.
//
// The dns resolver of grpc-go looks a name up once and then only when a connection breaks: endpoints that are added get
// no calls, and an answer that says "no such name" drops every connection that works. The options of a [Channel] replace
// it, for the channels that are made with them and for no other:
//
//	keep, err := channel.New(channel.Config{Policy: channel.LeastRequest})
//	if err != nil {
//		return err
//	}
//	defer keep.Close()
//	conn, err := grpc.NewClient("dns:///api.example:443", append(keep.DialOptions(), grpc.WithTransportCredentials(creds))...)
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//	client := pb.NewGreeterClient(conn)
//
// # Targets
//
//   - dns:///name:port, dns://server:port/name:port. Every address is an endpoint; exactly one A and one AAAA record are
//     one endpoint with two addresses. The port is 443 by default, the name server that of the system.
//   - srv:///_service._proto.name, srv://server:port/_service._proto.name. Every target and port of the SRV records is an
//     endpoint with all its addresses. Priorities and weights are those of RFC 2782. TLS checks the name of the SRV target.
//   - chronicle://host:port,host:port and chronicle+srv://name?srvNameServer=host:port, as package connstring reads them.
//     Credentials and every other option are refused in the error of the calls, and not shown there. grpc-go itself has
//     logged its target by then, and names it when it is no URL at all: do not put credentials into a target.
//   - evenkeel:///name asks Config.Resolver.
//
// Credentials are refused in each of these, in the same way.
//
// IP addresses, unix sockets and the targets of other resolvers (passthrough, xds) are resolved as grpc-go does it; the
// service config counts for them as well, where they have none of their own.
//
// Package channel/register registers srv, chronicle and chronicle+srv for the whole process.
//
// # Configuration
//
// A [Config] whose zero value is the default. A lookup that fails, finds no such name or an empty answer never removes an
// endpoint: the last good set stays, also while the channel is idle; when more than 256 targets have no channel that is in
// use, the oldest of those are forgotten. Hints (lost connections, [Channel.ResolveNow]) are honoured, but not more often
// than Config.MinInterval.
//
// The policies can stand in any service config by name ([RoundRobin], [Random], [LeastRequest]), with
// {"drainTimeout": "30s"} as their own config. A user's service config belongs into Config.ServiceConfig. One that is given
// to grpc.WithDefaultServiceConfig replaces all of ours when that option comes later, and has no effect when it comes
// earlier. While another policy than ours is at work, wherever it was named, only the endpoints of the lowest priority
// number are passed on, since other policies know no backups; endpoints that have failed are tried again when grpc-go does
// it, and not with each answer; and nothing is told or counted of endpoints.
//
// A proxy of the environment (HTTPS_PROXY) is honoured: names are looked up here, and the proxy is asked for the
// addresses. grpc-go drops what belongs to an endpoint, such as its weight and the name of an SRV target, on the way to a
// proxy; the policies of this package put it back, others go without.
//
// # Metrics
//
// With a MeterProvider:
//
//   - evenkeel.channel.resolution.duration, a histogram in s, by grpc.target and, for failures, error.type
//   - evenkeel.channel.endpoint.changes, a counter, by grpc.target and evenkeel.change (added, removed)
//   - evenkeel.channel.endpoint.count, how many endpoints there are, by grpc.target and evenkeel.endpoint.state (idle,
//     connecting, ready, transient_failure); each channel of grpc-go counts its own, so that an endpoint that two of them
//     have counts twice
//
// # Errors
//
// New returns all faults of a Config, joined. Until there is a first set, calls fail with the error of the lookup, such as
// a *[discover.LookupError] in text; calls that wait for ready wait for their deadline. When there is a set and none of it
// can be reached, calls fail with the errors of the connections and that of the latest lookup, if it failed too. A server
// without the health service that was asked for is told as [ErrNoHealthService].
//
// # Concurrency
//
// A [Channel] may serve any number of channels of grpc-go and be used by several goroutines at once. Its goroutines end
// with Close, and those of one channel of grpc-go with that channel.
//
// # Specification
//
// The naming, service config and load balancing documents of gRPC; gRFC A2 (service config in DNS), A17 (health), A61
// (endpoints of several addresses); RFC 2782 (SRV).
package channel

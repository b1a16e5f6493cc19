// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package discover finds the servers of a target: as written, from the SRV records of a name, or from its addresses. It
// finds them once, or keeps looking.
//
// Every source is a [Resolver]. A resolver is asked afresh on every connect; it keeps nothing, unless it is wrapped by
// [LastGood], which remembers the last set that served. Only a [DNS] remembers by itself what one of its two questions,
// for IPv4 and for IPv6, brought when that one alone fails. A source that learns of changes by itself is a [Watcher] too,
// one that takes hints a [Hinter], and one that must be stopped an io.Closer.
//
//	resolver, err := discover.SRV(discover.SRVConfig{Name: "prod.example", NameServer: "10.0.0.53"})
//	if err != nil {
//		return err
//	}
//	resolver = discover.LastGood(resolver)
//	endpoints, err := resolver.Resolve(ctx)
//	for _, endpoint := range endpoints {
//		fmt.Println(endpoint, endpoint.Priority, endpoint.Weight)
//	}
//	if len(endpoints) == 0 {
//		return err
//	}
//
// A [Poller] looks again and again, and tells what has changed. It is for whoever has connections to keep in step:
//
//	resolver, err := discover.NewDNS(discover.DNSConfig{Name: "api.prod.svc.cluster.local", Port: 8080})
//	if err != nil {
//		return err
//	}
//	poller, err := discover.NewPoller(discover.PollerConfig{
//		Resolver: resolver,
//		OnResult: func(result discover.PollResult) {
//			if result.Changed {
//				use(result.Endpoints)
//			}
//		},
//	})
//	if err != nil {
//		return err
//	}
//	defer poller.Close()
//
// Resolvers of grpc-go fit both ways. [FromGRPC] runs one, for etcd or another registry, as a source of ours, and
// [NewBuilder] makes one for grpc.WithResolvers of a source of ours:
//
//	source, err := discover.FromGRPC(etcdBuilder, "etcd:///servers", discover.GRPCConfig{})
//	if err != nil {
//		return err
//	}
//	defer source.Close()
//	conn, err := evenkeel.Dial(ctx, connectionString, evenkeel.WithResolver(source))
//
// # Configuration
//
// [Static] takes the endpoints themselves. [SRV] takes an [SRVConfig] and [NewDNS] a [DNSConfig]: the name, and a name
// server when the ones of the system shall not be asked. A lookup takes 5 s at most, of which the addresses of the targets
// of SRV records get 2 s. [WithAddrs] gives the endpoints of another resolver their addresses. [NewPoller] takes a
// [PollerConfig], whose waits all have defaults, and [FromGRPC] a [GRPCConfig], whose zero value is the default.
// [SystemResolver] is the resolver of addresses for everything that dials.
//
// # Errors
//
// A lookup that finds no endpoint returns a *[LookupError]. It names the query and the name server that was asked, and
// matches exactly one of [ErrNoSuchName], [ErrNoRecords], [ErrServerFailed] and [ErrTimeout], told by the reply code.
// One that the caller cancelled matches [context.Canceled] and none of the four. Endpoints may come together with a
// *[PartialError] or a *[StaleError]: they may be used all the same. A source that is no name server returns a
// *[SourceError], which matches in the same way, or [ErrClosed].
//
// # Concurrency
//
// Every resolver here may be used by several goroutines at once. None starts a goroutine that outlives the call, save a
// [GRPCSource], whose Close ends it, and the resolvers of [NewBuilder], which their channels close. A [Poller] has a
// goroutine until it is closed.
//
// Lookups for one question to one name server that are under way at the same time are one lookup in the whole process,
// whoever asks. It ends when nobody waits for it any more; one who stops waiting takes it away from nobody.
//
// # Specification
//
// RFC 1035 (messages), RFC 2782 (SRV), RFC 5452 (which replies to believe), RFC 6891 (EDNS), RFC 7766 (TCP), gRFC A61
// (endpoints of several addresses), and the naming document of gRPC (targets).
package discover

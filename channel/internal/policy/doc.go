// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package policy holds the three load-balancing policies of channels. They choose an endpoint for each call, from those
// that are ready, with no lock and no allocation.
//
// They are asked for by name in a service config, with a resolver of any kind:
//
//	{"loadBalancingConfig": [{"evenkeel_least_request": {"drainTimeout": "30s", "choiceCount": 2}}]}
//
// How they choose:
//
//   - evenkeel_round_robin takes each endpoint in turn. With weights it takes each as often as its weight says, at
//     distances as even as they can be. Its cursor goes on across updates.
//   - evenkeel_random takes any of them, by weight.
//   - evenkeel_least_request draws two at random, by weight, and takes the one with fewer calls in flight for its weight.
//     A stream counts until it ends. A call that failed in a way that tells of a server in trouble (Unavailable,
//     ResourceExhausted, Internal, Unknown, Unimplemented, DataLoss) counts for a second more, so that an endpoint that
//     fails fast does not look idle. Calls that wait because a server has reached its limit of concurrent streams count
//     too, so other endpoints are chosen. The first two policies count nothing, which is what makes them as cheap as they
//     are: a call of theirs may wait at a server that is full while another is free.
//
// # Configuration
//
// drainTimeout is a duration as protobuf writes it in JSON; absent or "0s" means 30 s. choiceCount is for least request
// only, 2 when absent, and more than 10 means 10. Unknown fields are left alone.
//
// Weights are those of grpc-go's experimental/balancer/weight on the endpoint, as xDS sets them; no weight counts as 1.
// Priorities are set with [SetPriority]. Lower values go first: endpoints of another priority are dialled only when all
// of the better ones have failed or have been silent for 10 s, and get calls only while none of those is ready. Their
// connections are kept for 15 minutes when they are needed no longer, and then left to end with their calls.
//
// # The set of endpoints
//
// An endpoint is the set of its addresses, each with its ServerName: neither order nor attributes nor weights make it
// another, but a port does. With each update from the resolver
//
//   - new endpoints are dialled side by side in a random order, and get calls when they are ready;
//   - removed ones get no call from that moment, are never dialled again, and keep their connection until drainTimeout has
//     passed; then it is closed, and what is still open on it ends with Unavailable. One that comes back before takes
//     calls over the connection that it has;
//   - unchanged ones keep their connection; attributes that have changed are used when it is made again;
//   - a connection to an address that stays is never cut when only the shape of the set changes, as when a name with one A
//     and one AAAA record, which is one endpoint of two addresses, gains a second A record: the new endpoint with that
//     address takes it over. Of two that become one the other ends by itself, when its calls have ended;
//   - failed ones are tried again, besides gRPC's own backoff, when the latest attempt is a second ago; after each such
//     attempt that fails it must be twice as long ago, up to 20 s.
//
// A connection that is lost is out of rotation at once and is made again at once, and calls wait for it when no other
// endpoint is ready: a server may limit the age of its connections. When several in a row have lived less than 250 ms the
// endpoint waits 100 ms, then twice as long each time up to 12.8 s, but not more than a second while no other endpoint is
// ready. It counts as failed only when its connections are closed before they are ready. grpc-go asks the resolver for a
// lookup whenever a connection is lost or refused.
//
// The end of a drain needs the channel's transport credentials, which every channel has. When the policy is closed,
// because the channel is or because its service config names another policy, a drain goes on as grpc-go does it: without
// an end of its own, but not longer than the channel.
//
// # Health
//
// The policies follow gRFC A17: with a healthCheckConfig in the service config, an endpoint gets calls only while its
// server says SERVING. The package imports grpc-go's health client, so that the check happens when it is asked for. A
// server without a health service counts as healthy; [Hooks] tells of it. While no endpoint is healthy calls fail: nothing
// is guessed about servers that say that they cannot serve.
//
// # Errors
//
// While endpoints are being dialled calls wait. When all have failed, calls that do not wait for ready fail with
// Unavailable and a text that names up to three endpoints with their last errors, and the latest lookup when that failed
// too. An empty answer from a resolver never removes a working set; it is answered with [balancer.ErrBadResolverState], so
// that the resolver asks again. A failed lookup changes nothing while there is a set.
//
// There is no slow start: a new endpoint gets its full share at once. With least request it gets no more than two draws in
// n even when it is the only idle one, which is what keeps a herd from it.
//
// # Concurrency
//
// Each policy has one mutex for its state and one goroutine, while there is anything to do, for the pick_first policies
// below it. Pickers are immutable; the first endpoint that is ready and every death is published at once, joiners wait
// 10 ms for others. [Register] is for init functions; all else is called by grpc-go.
//
// # Specification
//
// gRFC A17 (health checks), A48 (least request), A61 (endpoints of several addresses), A62 (a failed endpoint counts as
// failed until it is ready), A56 (priorities).
package policy

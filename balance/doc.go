// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package balance decides which server a client connects to: one per connect and reconnect, so that a fleet of clients
// spreads itself evenly over a cluster.
//
// A [Strategy] picks one of several endpoints. [NewLeastConnections] asks every server for its connections and takes
// the least busy one, [NewRoundRobin] takes turns, [NewRandom] draws lots, and a program can bring its own:
//
//	strategy, err := balance.NewLeastConnections(balance.LeastConnectionsConfig{})
//	if err != nil {
//		return err
//	}
//	attempt := balance.NewAttempt(endpoints, penalties, lost)
//	for candidates := attempt.Candidates(time.Now()); candidates != nil; candidates = attempt.Candidates(time.Now()) {
//		selection, err := strategy.Select(ctx, candidates)
//		if err != nil {
//			return err
//		}
//		if connect(selection.Endpoint) == nil {
//			return nil
//		}
//		attempt.Failed(selection.Endpoint)
//	}
//
// An [Attempt] applies priorities, exclusions and [Penalties] before a strategy sees the candidates. A [Prober] asks
// the servers; [NewProber] makes the one that speaks HTTPS, which the clients of a process can share.
//
// # Configuration
//
// [LeastConnectionsConfig] and [ProberConfig]: zero means the default, and Validate reports all faults. Nothing is read
// from the environment.
//
// # Errors
//
// [ErrNoCandidates] when there is nothing to choose from. A probe that brings no count fails with a [*ProbeError], which
// names the endpoint and shows nothing that the server sent.
//
// # Concurrency
//
// A Strategy belongs to one client and one goroutine at a time, and so does an Attempt. A Prober and Penalties are safe
// for concurrent use.
//
// # Specification
//
// Priorities and weights are those of RFC 2782. The probe is GET /connections/count and the reservation POST
// /connections/reserve of a Chronicle server, over HTTP/1.1 or HTTP/2.
package balance

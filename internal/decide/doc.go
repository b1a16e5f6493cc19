// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package decide is the decision of least-connections without anything around it: which candidates to ask, when to look
// again, which one to reserve at and under which bound. It has no clock and no sockets, so package balance runs it
// against servers and package sim against simulated ones:
//
//	m := decide.New(random)
//	action := m.Begin(decide.Config{Weights: weights, MaxJitter: jitter, Reserve: true})
//	for action.Kind != decide.Done {
//		switch action.Kind {
//		case decide.Wait: // for action.Wait
//			action = m.Waited()
//		case decide.Ask:
//			action = m.Answered(now(), ask(action.Ask))
//		case decide.Reserve:
//			action = m.Reserved(reserve(action.Index, action.Bound))
//		}
//	}
//
// A Rebalancer decides the same way whether a client that has a session moves to another server.
//
// # Configuration
//
// Config; its zero value has no candidates, and no decision is made about none. RebalanceConfig has no defaults.
//
// # Errors
//
// There are none. Whatever the servers say, a decision ends after a bounded number of actions with one of the candidates;
// numbers out of range are brought into it, or taken for not said.
//
// # Concurrency
//
// A Machine and a Rebalancer are used by one goroutine at a time.
//
// # Specification
//
// docs/balancing.md. Counts are a round trip old when they are used; with W others who decide within that time the pick
// is drawn from the water that W clients would fill (M. Mitzenmacher, "How useful is old information?", and M. Dahlin,
// "Interpreting stale load information"), and with W of 1 or less it is the minimum.
package decide

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package sim simulates a fleet of clients and the servers that they spread over: the decisions of least-connections and of
// rebalancing are those of package balance, the same code, and so are attempts and penalties; servers, network and time are
// simulated. Random and round-robin picks are a line each of its own, so that a seed decides them.
//
//	scenario, err := sim.Preset("cold-start", sim.Size{Clients: 1000, Servers: 10, RTT: 50 * time.Millisecond})
//	if err != nil {
//		return err
//	}
//	for _, algorithm := range sim.Algorithms() {
//		result, err := sim.Run(ctx, scenario, algorithm, 1)
//		if err != nil {
//			return err
//		}
//		fmt.Println(algorithm, result.MaxOverMean)
//	}
//
// The same scenario, algorithm and seed give the same result, on any machine.
//
// # Configuration
//
// A Scenario says what happens; Presets have names for the usual ones. BarSuite is the measure of docs/balancing.md.
//
// # Errors
//
// A scenario that cannot be meant is refused, with all that is wrong about it. A simulation ends with its context.
//
// # Concurrency
//
// The functions are safe for concurrent use, and share nothing. A simulation itself is one loop.
//
// # Specification
//
// What is simulated is the choice of servers: probes, reservations and Connect with their round trips, penalties, and what
// becomes of counts. Bandwidth, processors and packet loss are not, save that a reservation may be lost.
package sim

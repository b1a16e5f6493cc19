// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"context"

	"github.com/evenkeel-go/evenkeel/internal/decide"
)

// RunLyingForTest runs a scenario in which some servers, the first ones, change what they answer to probes.
func RunLyingForTest(scenario Scenario, algorithm Algorithm, seed uint64, liars int, lie func(*decide.Answer)) Result {
	w := newWorld(&scenario, algorithm, seed)
	for _, n := range w.nodes[:liars] {
		n.lie = lie
	}
	w.run(context.Background(), scenario.Length)
	return w.result(algorithm)
}

// RunUnweightedForTest is RunLyingForTest where no weights are known: what the servers take, they tell themselves.
func RunUnweightedForTest(scenario Scenario, algorithm Algorithm, seed uint64, liars int, lie func(*decide.Answer)) Result {
	w := newWorld(&scenario, algorithm, seed)
	for i, n := range w.nodes {
		n.endpoint.Weight = 0
		if i < liars {
			n.lie = lie
		}
	}
	w.list()
	w.run(context.Background(), scenario.Length)
	return w.result(algorithm)
}

// LeftoverForTest returns the live reservations at the end of a scenario.
func LeftoverForTest(scenario Scenario, algorithm Algorithm, seed uint64) (reserved, least int) {
	w := newWorld(&scenario, algorithm, seed)
	for !w.settled() && w.next(scenario.Length) {
		for _, n := range w.nodes {
			least = min(least, n.count(), n.reserved)
		}
	}
	// What is on its way still arrives.
	for w.next(scenario.Length) {
	}
	for _, n := range w.nodes {
		reserved += n.reserved
	}
	return reserved, least
}

// RandomForTest is what random picks bring, for comparison.
func RandomForTest(scenario Scenario, seed uint64) float64 {
	w := newWorld(&scenario, Random, seed)
	w.run(context.Background(), scenario.Length)
	return w.result(Random).MaxOverMean
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Result is what came of a simulation.
type Result struct {
	Algorithm Algorithm
	// Counts are the connected clients of each server at the end.
	Counts []int
	// MaxOverMean is how many clients the busiest server has for its capacity, over the mean of the servers that serve. It
	// is 1 when all are equal, and 0 when nobody is connected.
	MaxOverMean float64
	// Connected is how many clients have a session at the end.
	Connected int
	// Requests is how many requests the clients sent: probes, reservations and releases.
	Requests int
	// Moves is how many reservations were given up for better ones.
	Moves int
	// Decisions is how many picks were made; DecideMean is how long they took on average, from the beginning of the wait to
	// the pick, and DecideMost the longest of them.
	Decisions              int
	DecideMean, DecideMost time.Duration
	// History has the connected clients over time, at equal distances; empty where none was asked for.
	History []Moment
}

// Moment is a point in the history of a simulation.
type Moment struct {
	At     time.Duration
	Counts []int
}

// Run simulates the scenario with an algorithm. It returns the error of a scenario that cannot be meant, or of ctx.
func Run(ctx context.Context, scenario Scenario, algorithm Algorithm, seed uint64) (Result, error) {
	return RunWithHistory(ctx, scenario, algorithm, seed, 0)
}

// RunWithHistory is Run with so many points of history.
func RunWithHistory(ctx context.Context, scenario Scenario, algorithm Algorithm, seed uint64, points int) (Result, error) {
	if err := scenario.Validate(); err != nil {
		return Result{}, err
	}
	if !slices.Contains(Algorithms(), algorithm) {
		return Result{}, fmt.Errorf("sim: no such algorithm: there are %v", Algorithms())
	}
	w := newWorld(&scenario, algorithm, seed)
	history := w.runThrough(ctx, points)
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("simulate: %w", err)
	}
	result := w.result(algorithm)
	result.History = history
	return result, nil
}

// runThrough runs the simulation to its end, and looks at it at equal distances on the way.
func (w *world) runThrough(ctx context.Context, points int) []Moment {
	var history []Moment
	for i := range points {
		at := w.scenario.Length * time.Duration(i) / time.Duration(points)
		w.run(ctx, at)
		history = append(history, Moment{At: at, Counts: w.counts()})
	}
	w.run(ctx, w.scenario.Length)
	if points > 0 {
		history = append(history, Moment{At: w.scenario.Length, Counts: w.counts()})
	}
	return history
}

func (w *world) counts() []int {
	counts := make([]int, len(w.nodes))
	for i, n := range w.nodes {
		counts[i] = n.sessions
	}
	return counts
}

func (w *world) result(algorithm Algorithm) Result {
	t := &w.tally
	return Result{
		Algorithm: algorithm, Counts: w.counts(), MaxOverMean: w.maxOverMean(), Connected: t.connected,
		Requests: t.requests, Moves: t.moves, Decisions: t.decisions,
		DecideMean: t.deciding / time.Duration(max(t.decisions, 1)), DecideMost: t.slowest,
	}
}

// maxOverMean compares the servers that serve, each with what it can take.
func (w *world) maxOverMean() float64 {
	sum, capacities, most := 0, 0.0, 0.0
	for _, n := range w.nodes {
		if n.condition != serving {
			continue
		}
		capacity := float64(max(n.capacity, 1))
		sum += n.sessions
		capacities += capacity
		most = max(most, float64(n.sessions)/capacity)
	}
	if sum == 0 {
		return 0
	}
	return most * capacities / float64(sum)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"context"
	"fmt"
	"math"
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
	// Decisions is how many picks were made; DecideMean is how long they took on average, from the beginning of the wait
	// to the pick, and DecideMost the longest of them.
	Decisions              int
	DecideMean, DecideMost time.Duration
	// Rebalanced is how many times a client that had a session moved to another server by itself, and RebalancedTwice how
	// many clients did so more than once.
	Rebalanced, RebalancedTwice int
	// EvenAfter is how long after the last event of the scenario, or after the beginning where there is none, the fleet
	// was even for good: all connected, and no server with more than 1.05 times its share, rounded up. Negative means that
	// it was not at the end, or that a scenario without events and rebalancing was not watched for it.
	EvenAfter time.Duration
	// StockMaxOverMean and StockDecideMean are those of the stock clients alone, in a scenario that has StockClients.
	// StockLoad is how full the servers are that these are on: the mean over the stock clients of what their server has,
	// of whatever clients, over the mean of all servers.
	StockMaxOverMean, StockLoad float64
	StockDecideMean             time.Duration
	// History has the connected clients over time, at equal distances; empty where none was asked for. Of RunWithHistory
	// it is that of the whole Length.
	History []Moment
}

// Run simulates the scenario with an algorithm. It returns the error of a scenario that cannot be meant, or of ctx.
func Run(ctx context.Context, scenario Scenario, algorithm Algorithm, seed uint64) (Result, error) {
	return RunWithHistory(ctx, scenario, algorithm, seed, 0)
}

// RunWithHistory is Run with so many points of history, the first at the beginning and the last at the end.
func RunWithHistory(ctx context.Context, scenario Scenario, algorithm Algorithm, seed uint64, points int) (Result, error) {
	if points < 1 {
		return runTraced(ctx, &scenario, algorithm, seed, nil)
	}
	var t trace
	result, err := runTraced(ctx, &scenario, algorithm, seed, &t)
	if err != nil {
		return Result{}, err
	}
	result.History = t.history(&scenario, scenario.Length, points)
	return result, nil
}

// runTraced simulates the scenario, and writes down what its history is made of where t is not nil.
func runTraced(ctx context.Context, scenario *Scenario, algorithm Algorithm, seed uint64, t *trace) (Result, error) {
	if err := scenario.Validate(); err != nil {
		return Result{}, err
	}
	if !slices.Contains(Algorithms(), algorithm) {
		return Result{}, fmt.Errorf("sim: no such algorithm: there are %v", Algorithms())
	}
	if err := scenario.bounded(algorithm); err != nil {
		return Result{}, err
	}
	w := newWorld(scenario, algorithm, seed)
	w.record(t)
	w.run(ctx, scenario.Length)
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("simulate: %w", err)
	}
	return w.result(algorithm), nil
}

// record has the world write down from now on what becomes of its servers.
func (w *world) record(t *trace) {
	w.trace = t
	for _, n := range w.nodes {
		t.note(w.now, n)
	}
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
	r := Result{
		Algorithm: algorithm, Counts: w.counts(), Connected: t.connected,
		Requests: t.requests, Moves: t.moves, Decisions: t.decisions,
		DecideMean: t.deciding / time.Duration(max(t.decisions, 1)), DecideMost: t.slowest,
		StockDecideMean: t.stockDeciding / time.Duration(max(t.stockDecisions, 1)),
		EvenAfter:       w.even,
	}
	r.MaxOverMean, _ = w.maxOverMean(func(n *node) int { return n.sessions })
	r.StockMaxOverMean, _ = w.maxOverMean(func(n *node) int { return n.stocks })
	r.StockLoad = w.stockLoad()
	if w.even != never {
		r.EvenAfter = max(w.even-w.scenario.changes(), 0)
	}
	for _, c := range w.clients {
		if c.looker != nil {
			r.Rebalanced += c.looker.moves
			if c.looker.moves > 1 {
				r.RebalancedTwice++
			}
		}
	}
	return r
}

// stockLoad is how full the servers of stock clients are.
func (w *world) stockLoad() float64 {
	stocks, sum, capacities, met := 0, 0, 0.0, 0.0
	for _, n := range w.nodes {
		if n.condition != serving {
			continue
		}
		capacity := float64(max(n.capacity, 1))
		stocks += n.stocks
		sum += n.sessions
		capacities += capacity
		met += float64(n.stocks) * float64(n.sessions) / capacity
	}
	if stocks == 0 {
		return 0
	}
	return met / float64(stocks) * capacities / float64(sum)
}

// maxOverMean compares the servers that serve, each with what it can take. ok says that none of them has more than is worth
// a move.
func (w *world) maxOverMean(count func(*node) int) (worst float64, ok bool) {
	sum, capacities, most := 0, 0.0, 0.0
	for _, n := range w.nodes {
		if n.condition != serving {
			continue
		}
		capacity := float64(max(n.capacity, 1))
		sum += count(n)
		capacities += capacity
		most = max(most, float64(count(n))/capacity)
	}
	if sum == 0 {
		return 0, true
	}
	mean := float64(sum) / capacities
	for _, n := range w.nodes {
		if n.condition == serving && float64(count(n)) > math.Ceil(evenWithin*mean*float64(max(n.capacity, 1))-rounding) {
			return most / mean, false
		}
	}
	return most / mean, true
}

// changed notes that the sessions or the condition of a server have changed.
func (w *world) changed(n *node) {
	w.trace.note(w.now, n)
	w.weigh()
}

// weigh notes since when the fleet is even.
func (w *world) weigh() {
	if !w.scenario.tracked() {
		w.even = never // nobody asks, and there may be many clients
		return
	}
	_, ok := w.maxOverMean(func(n *node) int { return n.sessions })
	switch {
	case !ok || w.tally.connected < len(w.clients):
		w.even = never
	case w.even == never:
		w.even = w.now
	}
}

const (
	// never is no time.
	never time.Duration = -1
	// evenWithin is how far above the mean the busiest server of an even fleet may stand, and rounding what floating point
	// may add to that.
	evenWithin = 1.05
	rounding   = 1e-9
)

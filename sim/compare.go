// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"context"
	"runtime"
	"time"
)

// CompareConfig configures Compare. The scenario must be set.
type CompareConfig struct {
	Scenario Scenario
	// Algorithms are what is compared; empty means all.
	Algorithms []Algorithm
	// Seed is that of the first repeat; each repeat has the next one.
	Seed uint64
	// Repeats is how many times each is simulated; 0 means once.
	Repeats int
	// Points is how many points of history the first repeat keeps; 0 means none.
	Points int
	// Workers is how many simulations run at a time; 0 means one for each processor.
	Workers int
	// Progress, where not nil, is told how many of all simulations are done, by one goroutine at a time.
	Progress func(done, all int)
}

// Compared is what came of a scenario with one algorithm: means over the repeats.
type Compared struct {
	Algorithm                  Algorithm
	MaxOverMean, StandardError float64
	// Worst is the worst run.
	Worst             float64
	RequestsPerClient float64
	DecideMean        time.Duration
	// Connected is how many clients have a session at the end.
	Connected float64
	// Rebalanced is the part of the clients that moved to another server by themselves, and RebalancedTwice how many
	// clients of all repeats did so more than once.
	Rebalanced      float64
	RebalancedTwice int
	// Even is how many repeats were even at the end, as Result.EvenAfter has it. EvenAfter is the mean of these, and
	// EvenMost the longest.
	Even                int
	EvenAfter, EvenMost time.Duration
	// StockMaxOverMean, StockLoad and StockDecideMean are those of the stock clients alone, as in Result.
	StockMaxOverMean, StockLoad float64
	StockDecideMean             time.Duration
	// First is the first repeat.
	First Result
}

// Compare simulates a scenario with several algorithms, several times, and returns them in the order of the algorithms. It
// ends with ctx, and returns its error, or that of a scenario that cannot be meant.
func Compare(ctx context.Context, config CompareConfig) ([]Compared, error) {
	if err := config.Scenario.Validate(); err != nil {
		return nil, err
	}
	if len(config.Algorithms) == 0 {
		config.Algorithms = Algorithms()
	}
	if config.Workers <= 0 {
		config.Workers = runtime.GOMAXPROCS(0)
	}
	config.Repeats = max(config.Repeats, 1)
	var runs []job
	for _, algorithm := range config.Algorithms {
		for i := range config.Repeats {
			j := job{scenario: config.Scenario, algorithm: algorithm, seed: config.Seed + uint64(i)}
			if i == 0 {
				j.points = config.Points
			}
			runs = append(runs, j)
		}
	}
	if err := runAll(ctx, runs, config.Workers, config.Progress); err != nil {
		return nil, err
	}
	var compared []Compared
	for len(runs) > 0 {
		compared = append(compared, sumUp(runs[:config.Repeats]))
		runs = runs[config.Repeats:]
	}
	return compared, nil
}

// sumUp makes means of the repeats of one algorithm.
func sumUp(runs []job) Compared {
	n := float64(len(runs))
	c := Compared{Algorithm: runs[0].algorithm, First: runs[0].result}
	requests := 0
	for i := range runs {
		r := &runs[i].result
		c.MaxOverMean += r.MaxOverMean / n
		c.Worst = max(c.Worst, r.MaxOverMean)
		c.DecideMean += r.DecideMean / time.Duration(len(runs))
		c.Connected += float64(r.Connected) / n
		requests += r.Requests
		c.addEven(r)
		c.Rebalanced += float64(r.Rebalanced) / n / float64(runs[0].scenario.Clients)
		c.RebalancedTwice += r.RebalancedTwice
		c.StockMaxOverMean += r.StockMaxOverMean / n
		c.StockLoad += r.StockLoad / n
		c.StockDecideMean += r.StockDecideMean / time.Duration(len(runs))
	}
	c.EvenAfter /= time.Duration(max(c.Even, 1))
	c.StandardError = standardError(runs, c.MaxOverMean)
	c.RequestsPerClient = float64(requests) / n / float64(runs[0].scenario.Clients)
	return c
}

// addEven adds when a repeat was even; the mean is made afterwards.
func (c *Compared) addEven(r *Result) {
	if r.EvenAfter < 0 {
		return
	}
	c.Even++
	c.EvenAfter += r.EvenAfter
	c.EvenMost = max(c.EvenMost, r.EvenAfter)
}

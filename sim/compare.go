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
	// Points is how many points of history the first repeat of each algorithm keeps; 0 means none. These are from the
	// beginning to a little after the last change in any of them, the same for all.
	Points int
	// Workers is how many simulations run at a time; 0 means one for each processor.
	Workers int
	// Progress, where not nil, is told how many of all simulations are done, by one goroutine at a time: at the beginning
	// that none is, and then after each.
	Progress func(done, all int)
}

// Compared is what came of a scenario with one algorithm: means over the repeats.
type Compared struct {
	Algorithm Algorithm
	// Seed is that of the first repeat, and Repeats how many there were.
	Seed    uint64
	Repeats int
	// MaxOverMean is that of the repeats in which anybody is connected at the end, and 0 where that is none of them.
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
	// EvenMost the longest, where there is one.
	Even                int
	EvenAfter, EvenMost time.Duration
	// StockMaxOverMean, StockLoad and StockDecideMean are those of the stock clients alone, as in Result; the first two
	// are means over the repeats in which any of these is connected, and 0 where that is none.
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
	for _, algorithm := range config.Algorithms {
		if err := config.Scenario.bounded(algorithm); err != nil {
			return nil, err
		}
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
				j.trace = config.newTrace()
			}
			runs = append(runs, j)
		}
	}
	if err := runAll(ctx, runs, config.Workers, config.Progress); err != nil {
		return nil, err
	}
	config.keepHistories(runs)
	var compared []Compared
	for len(runs) > 0 {
		compared = append(compared, sumUp(runs[:config.Repeats]))
		runs = runs[config.Repeats:]
	}
	return compared, nil
}

// newTrace returns what a history is made of; nil where none is asked for.
func (c *CompareConfig) newTrace() *trace {
	if c.Points < 1 {
		return nil
	}
	return new(trace)
}

// afterLast is how much longer than to the last change a history goes on, so that it can be seen that this was it.
const afterLast = 1.1

// keepHistories makes the histories of those that have been traced. They can be compared, so they all end at the same time.
func (c *CompareConfig) keepHistories(runs []job) {
	last := time.Duration(0)
	for i := range runs {
		if runs[i].trace != nil {
			last = max(last, runs[i].trace.last())
		}
	}
	end := min(time.Duration(afterLast*float64(last)), c.Scenario.Length)
	if end <= 0 {
		end = c.Scenario.Length // nothing has changed
	}
	for i := range runs {
		if runs[i].trace != nil {
			runs[i].result.History = runs[i].trace.history(&c.Scenario, end, c.Points)
		}
	}
}

// sumUp makes means of the repeats of one algorithm.
func sumUp(runs []job) Compared {
	n := float64(len(runs))
	c := Compared{Algorithm: runs[0].algorithm, Seed: runs[0].seed, Repeats: len(runs), First: runs[0].result}
	requests := 0
	var ratios, stockRatios, stockLoads []float64
	for i := range runs {
		r := &runs[i].result
		ratios, stockRatios = append(ratios, r.MaxOverMean), append(stockRatios, r.StockMaxOverMean)
		stockLoads = append(stockLoads, r.StockLoad)
		c.Worst = max(c.Worst, r.MaxOverMean)
		c.DecideMean += r.DecideMean / time.Duration(len(runs))
		c.Connected += float64(r.Connected) / n
		requests += r.Requests
		c.addEven(r)
		c.Rebalanced += float64(r.Rebalanced) / n / float64(runs[0].scenario.Clients)
		c.RebalancedTwice += r.RebalancedTwice
		c.StockDecideMean += r.StockDecideMean / time.Duration(len(runs))
	}
	c.EvenAfter /= time.Duration(max(c.Even, 1))
	c.MaxOverMean, c.StandardError = meanOf(ratios)
	c.StockMaxOverMean, _ = meanOf(stockRatios)
	c.StockLoad, _ = meanOf(stockLoads)
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

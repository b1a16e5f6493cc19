// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"context"
	"runtime"
	"time"
)

// Bar is one row of the measure that our algorithm has to meet: a cold start, and how even it has to come out.
type Bar struct {
	Clients, Servers int
	RTT              time.Duration
	// Ours and Stock are the most that max/mean may be on average, with our servers and with stock ones.
	Ours, Stock float64
	// Decide is how long it may take to decide, on average.
	Decide time.Duration
	// Repeats is how many times it is simulated.
	Repeats int
}

// MaxRequests is how many requests a client may need, on average, to meet any bar.
const MaxRequests = 20

// Bars returns the rows of the measure.
//
// The bar of the first row is "1.00 in 99 % of the runs"; with two clients that is a mean of 1.01.
func Bars() []Bar {
	const (
		near, middle, far = time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond
		repeats           = 20
	)
	return []Bar{
		{2, 2, near, 1.01, 1.01, 200 * time.Millisecond, 100 * repeats},
		{100, 4, near, 1.005, 1.02, 200 * time.Millisecond, repeats},
		{100, 4, middle, 1.02, 1.09, 400 * time.Millisecond, repeats},
		{1000, 10, near, 1.015, 1.02, 200 * time.Millisecond, repeats},
		{1000, 10, far, 1.04, 1.13, 700 * time.Millisecond, repeats},
		{10000, 100, near, 1.03, 1.03, 200 * time.Millisecond, repeats},
		{10000, 100, far, 1.06, 1.20, 700 * time.Millisecond, repeats},
	}
}

// most is the bar for an algorithm. All but ours work with stock servers.
func (b *Bar) most(algorithm Algorithm) float64 {
	if algorithm == Evenkeel {
		return b.Ours
	}
	return b.Stock
}

// scenario is the cold start of the row.
func (b *Bar) scenario() Scenario {
	return Scenario{
		Name: "cold-start", Clients: b.Clients, Servers: b.Servers, RTT: b.RTT, Jitter: DefaultJitter, Length: time.Minute,
	}
}

// Measured is what an algorithm reached in a row.
type Measured struct {
	Bar       Bar
	Algorithm Algorithm
	// Repeats is how many simulations the means are over.
	Repeats int
	// MaxOverMean is the mean, and StandardError how far chance may have it off.
	MaxOverMean, StandardError float64
	// Worst is the worst run.
	Worst float64
	// RequestsPerClient counts probes, reservations and releases.
	RequestsPerClient float64
	// DecideMean is how long a client took to decide, its first random wait included.
	DecideMean time.Duration
	// Most is the bar.
	Most float64
	// Met says that the bar was met: by what came out, the requests and the time.
	Met bool
}

// SuiteConfig configures BarSuite. The zero value measures everything.
type SuiteConfig struct {
	// Bars are the rows; empty means Bars.
	Bars []Bar
	// Algorithms are what is measured; empty means all.
	Algorithms []Algorithm
	// Seed is that of the first repeat; each repeat has the next one.
	Seed uint64
	// Repeats, where more than 0, is how many times each row is simulated instead of its own number.
	Repeats int
	// Workers is how many simulations run at a time; 0 means one for each processor.
	Workers int
	// Progress, where not nil, is told how many of all simulations are done, by one goroutine at a time: at the beginning
	// that none is, and then after each.
	Progress func(done, all int)
}

// BarSuite measures algorithms, and returns the rows in the order of the bars and, for each, of the algorithms. It ends with
// ctx, and returns its error.
func BarSuite(ctx context.Context, config SuiteConfig) ([]Measured, error) {
	if len(config.Bars) == 0 {
		config.Bars = Bars()
	}
	if len(config.Algorithms) == 0 {
		config.Algorithms = Algorithms()
	}
	if config.Workers <= 0 {
		config.Workers = runtime.GOMAXPROCS(0)
	}
	jobs := config.jobs()
	if err := runAll(ctx, jobs, config.Workers, config.Progress); err != nil {
		return nil, err
	}
	var rows []Measured
	for _, bar := range config.Bars {
		for range config.Algorithms {
			n := config.repeats(&bar)
			rows = append(rows, measure(&bar, jobs[:n]))
			jobs = jobs[n:]
		}
	}
	return rows, nil
}

func (c *SuiteConfig) repeats(bar *Bar) int {
	if c.Repeats > 0 {
		return c.Repeats
	}
	return max(bar.Repeats, 1)
}

func (c *SuiteConfig) jobs() []job {
	var jobs []job
	for _, bar := range c.Bars {
		for _, algorithm := range c.Algorithms {
			for i := range c.repeats(&bar) {
				jobs = append(jobs, job{scenario: bar.scenario(), algorithm: algorithm, seed: c.Seed + uint64(i)})
			}
		}
	}
	return jobs
}

// measure holds the repeats of one row against the bar.
func measure(bar *Bar, jobs []job) Measured {
	c := sumUp(jobs)
	m := Measured{
		Bar: *bar, Algorithm: c.Algorithm, Repeats: c.Repeats, MaxOverMean: c.MaxOverMean, StandardError: c.StandardError,
		Worst: c.Worst, RequestsPerClient: c.RequestsPerClient, DecideMean: c.DecideMean, Most: bar.most(c.Algorithm),
	}
	m.Met = m.MaxOverMean > 0 && m.MaxOverMean <= m.Most && m.RequestsPerClient <= MaxRequests && m.DecideMean <= bar.Decide
	return m
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/server"
	"github.com/evenkeel-go/evenkeel/sim"
)

const (
	// benchPatience is how long the last client may take after the longest wait.
	benchPatience = time.Minute
	// predictions is how many simulations the prediction is the mean of.
	predictions = 20
	// Simulation and measurement agree when they differ by no more than so many clients, or by so much of what is
	// predicted.
	agreeClients = 2
	agreePart    = .3
	// The machine was the bottleneck when counts were older than the delay, or the clients spread wider than the jitter,
	// by more than this and by more than this part of it.
	laggingBy   = 10 * time.Millisecond
	laggingPart = .2
)

// benchRow is the object of bench fleet --json.
type benchRow struct {
	Clients            int           `json:"clients"`
	Servers            int           `json:"servers"`
	Jitter             float64       `json:"jitter_ms"`
	Delay              float64       `json:"delay_ms"`
	Algorithm          sim.Algorithm `json:"algorithm"`
	Repeats            int           `json:"repeats"`
	Age                float64       `json:"age_ms"`
	Spread             float64       `json:"spread_ms"`
	AtOnce             float64       `json:"deciding_at_once"`
	Mean               float64       `json:"mean"`
	Max                float64       `json:"max"`
	MaxOverMean        float64       `json:"max_over_mean"`
	SimulatedMax       float64       `json:"simulated_max"`
	Agree              bool          `json:"agree"`
	RequestsPerClient  float64       `json:"requests_per_client"`
	FailedProbes       int64         `json:"failed_probes"`
	FailedReservations int64         `json:"failed_reservations"`
	ReadyMedian        float64       `json:"ready_ms_median"`
	ReadyP99           float64       `json:"ready_ms_p99"`
	MachineBound       bool          `json:"machine_bound"`
	Elapsed            float64       `json:"elapsed_ms"`

	failing bool // in a run, more failed than can be
}

// benchRun is what one run of one fleet brought.
type benchRun struct {
	sighting
	most  int // clients on the busiest server
	ready []time.Duration
}

// measure measures a fleet with each algorithm.
func (b *bench) measure(ctx context.Context, one crowd) ([]benchRow, error) {
	var rows []benchRow
	for _, algorithm := range measuredAlgorithms() {
		row, err := b.measureOne(ctx, one, algorithm)
		if err := interrupted(ctx); err != nil {
			return nil, err
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (b *bench) measureOne(ctx context.Context, one crowd, algorithm sim.Algorithm) (benchRow, error) {
	began := time.Now()
	repeats := b.repeatsOf(one)
	bar := newProgress(b.console, string(algorithm))
	bar.show(0, repeats*one.clients)
	var runs []benchRun
	for i := range repeats {
		run, err := one.start(ctx, algorithm, func(ready int) { bar.show(i*one.clients+ready, repeats*one.clients) })
		if err != nil {
			bar.end()
			return benchRow{}, err
		}
		runs = append(runs, run)
	}
	bar.end()
	row := one.sumUp(runs)
	row.Algorithm, row.Repeats = algorithm, repeats
	most, err := one.predict(ctx, row)
	if err != nil {
		return benchRow{}, err
	}
	row.SimulatedMax = rounded(most)
	row.Agree = agree(row.Max-row.Mean, most-row.Mean)
	row.Elapsed = milliseconds(time.Since(began))
	if !b.console.errScreen.live() {
		b.console.complain("%s on %s, %s: done in %s",
			plural(one.clients, "client"), plural(one.servers, "server"), algorithm, shortDuration(time.Since(began)))
	}
	return row, nil
}

// agree says whether what was measured is what was predicted, as far as one can tell.
func agree(measured, predicted float64) bool {
	return math.Abs(measured-predicted) <= max(agreeClients, agreePart*predicted)
}

// sumUp makes means of runs.
func (c crowd) sumUp(runs []benchRun) benchRow {
	n, mean := float64(len(runs)), float64(c.clients)/float64(c.servers)
	row := benchRow{
		Clients: c.clients, Servers: c.servers, Jitter: milliseconds(c.jitter), Delay: milliseconds(c.delay), Mean: rounded(mean),
	}
	var ready []time.Duration
	var age, spread time.Duration
	for _, run := range runs {
		row.Max += float64(run.most) / n
		row.RequestsPerClient += float64(run.requests) / n / float64(c.clients)
		row.FailedProbes += run.failedProbes
		row.FailedReservations += run.failedReservations
		row.failing = row.failing || run.failing()
		age += run.age / time.Duration(len(runs))
		spread += run.spread / time.Duration(len(runs))
		ready = append(ready, run.ready...)
	}
	slices.Sort(ready)
	row.ReadyMedian, row.ReadyP99 = milliseconds(percentile(ready, 50)), milliseconds(percentile(ready, 99))
	spread = max(spread, c.jitter)
	row.Age, row.Spread, row.AtOnce = rounded(milliseconds(age)), rounded(milliseconds(spread)), rounded(c.atOnce(age, spread))
	row.Max, row.MaxOverMean, row.RequestsPerClient = rounded(row.Max), rounded(row.Max/mean), rounded(row.RequestsPerClient)
	row.MachineBound = age < c.delay || // counts came too late to be used at all
		age-c.delay > max(laggingBy, time.Duration(laggingPart*float64(c.delay))) ||
		spread-c.jitter > max(laggingBy, time.Duration(laggingPart*float64(c.jitter)))
	return row
}

// predict simulates the fleet as it was, and returns how many clients the busiest server has, on average.
func (c crowd) predict(ctx context.Context, row benchRow) (float64, error) {
	age, spread := fromMilliseconds(row.Age), fromMilliseconds(row.Spread)
	compared, err := sim.Compare(ctx, sim.CompareConfig{
		Scenario: sim.Scenario{
			Name: "cold-start", Clients: c.clients, Servers: c.servers, RTT: min(age, 2*time.Second),
			Jitter: min(spread, longestJitter), Length: longestJitter + benchPatience,
		},
		Algorithms: []sim.Algorithm{row.Algorithm}, Seed: 1, Repeats: predictions,
	})
	if err != nil {
		return 0, err
	}
	return compared[0].MaxOverMean * float64(c.clients) / float64(c.servers), nil
}

// start runs the fleet once, on servers of its own.
func (c crowd) start(ctx context.Context, algorithm sim.Algorithm, progress func(ready int)) (run benchRun, err error) {
	// Clients and servers share this machine. It has the memory, and the time is better spent on them.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	cluster, err := c.cluster(algorithm)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	cs, err := connstring.Parse(cluster.ConnectionString())
	if err != nil {
		return run, err
	}
	var sees onlooker
	f, err := newFleet(fleetConfig{
		connString: cs, tls: cluster.TLS(), jitter: c.jitter, classic: algorithm == sim.Classic,
		watch: sees.over,
	})
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	for _, s := range cluster.Servers { // the connections of the prober are there before the crowd is
		if _, err := f.prober.Count(ctx, s.Endpoint()); err != nil {
			return run, err
		}
	}
	if run.ready, err = c.await(ctx, f, progress); err != nil {
		return run, err
	}
	for _, n := range f.connections() {
		run.most = max(run.most, n)
	}
	run.sighting = sees.sum()
	return run, nil
}

// cluster starts the servers. What bounds reservations is out of the way: all clients come from one address here.
func (c crowd) cluster(algorithm sim.Algorithm) (*evenkeeltest.Cluster, error) {
	const unbounded = 1 << 20
	cluster, err := evenkeeltest.New(evenkeeltest.Config{
		Servers: c.servers,
		Registry: server.RegistryConfig{
			MaxReservations: unbounded, MaxReservationsPerAddress: unbounded, ReservationRate: unbounded, ReservationBurst: unbounded,
		},
	})
	if err != nil {
		return nil, err
	}
	slow := evenkeeltest.HTTPFault{Delay: c.delay}
	for _, s := range cluster.Servers {
		s.SetFault(evenkeeltest.Fault{Count: slow, Reserve: slow, StockHTTP: algorithm != sim.Evenkeel})
	}
	return cluster, nil
}

// await starts the clients and waits until all have a session. It returns how long each took for its own.
func (c crowd) await(ctx context.Context, f *fleet, progress func(ready int)) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.jitter+benchPatience)
	defer cancel()
	began := make([]time.Time, c.clients)
	for i := range began {
		began[i] = time.Now()
		if err := f.add(); err != nil {
			return nil, err
		}
	}
	ready := make([]time.Duration, 0, c.clients)
	for len(ready) < c.clients {
		select {
		case e := <-f.events:
			if e.Kind == evenkeel.EventConnected && e.Generation == 1 {
				ready = append(ready, e.Time.Sub(began[e.client-1]))
				progress(len(ready))
			}
		case <-ctx.Done():
			client, cause := f.failure()
			if cause == nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("%d of %s without a session: client %d: %w",
				c.clients-len(ready), plural(c.clients, "client"), client, adviser{}.explain(cause))
		}
	}
	return ready, nil
}

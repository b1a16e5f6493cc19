// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/evenkeel-go/evenkeel/sim"
)

// The bounds of the flags.
const (
	maxBenchClients = 10_000
	maxBenchServers = 64
	// maxBenchDelay leaves room within the two seconds in which a server has to answer.
	maxBenchDelay   = 1500 * time.Millisecond
	maxBenchRepeats = 100
)

const benchHelp = `
Measure this library on this machine, on real sockets.`

const benchFleetHelp = `
Start a fleet of clients at once against servers of its own, in this process and over TLS, and measure how even the
clients come out. Then simulate the same fleet, and say whether the two agree. Each fleet is measured with

  classic         stock clients: all servers are asked, the minimum is taken
  evenkeel-stock  this client with stock servers
  evenkeel        this client with servers of its own kind

Without flags there are five fleets on 10 servers: 200 clients with a jitter of 250 ms and 1000 with 5 s, each as fast
as this machine answers, and with a delay in the servers' answers to probes and reservations, of 50 ms and 1 s; and 200
clients with the longer times, which a slow machine keeps up with. With the delays so many clients decide at the same
time that stock clients all go to the same servers. It takes two to four minutes. --clients,
--servers, --jitter and --delay measure one fleet of one's own.

The clients share one prober over HTTP/2, and each has a session of its own, so 1000 clients mean 1000 TLS handshakes.
AGE is how old the counts were when a reservation upon them was made, which is a round trip, and SPREAD is the time
within which all clients had their counts, which is the jitter. Both are simulated as they were. Where they are much more
than the delay and the jitter, the machine was the bottleneck and not the network that the delay stands for: MACHINE
BOUND, where AGREE means little; a longer --jitter helps. AT ONCE is how many other clients decide within AGE. FAILED
counts the probes and reservations without an answer in two seconds: clients that miss counts pick among the others, or
blindly, so where more than 1 % failed the other figures say nothing of the algorithm.

With --json, one object a line for each fleet and algorithm; fields without a
value are left out:

  clients              the size of the fleet
  servers              how many servers there are
  jitter_ms            the longest random wait before a client asks
  delay_ms             what the servers' answers were held up by
  algorithm            one of those above
  repeats              how many runs the numbers are over
  age_ms               how old counts are when a reservation upon them is
                       made; simulated as the round trip
  spread_ms            within what time all clients have their counts, the
                       jitter at least; simulated as the jitter
  deciding_at_once     how many other clients decide within that time
  mean                 clients for each server
  max                  on the busiest server, on average over the repeats
  max_over_mean        that over the mean; 1 is perfectly even
  simulated_max        what the simulator says the max is
  agree                the two differ in max - mean by no more than 2 clients
                       or 30 %; it means little with machine_bound
  requests_per_client  probes, reservations and releases
  failed_probes        counts that did not come, in all repeats; where more
                       than 1 % did not, other figures mean little
  failed_reservations  the same of reservations
  ready_ms_median      from the start of a client to its session
  ready_ms_p99         the same, of the slowest hundredth
  machine_bound        the machine was the bottleneck
  elapsed_ms           how long it took`

const benchFleetExamples = `  evenkeel bench fleet
  evenkeel bench fleet --clients 500 --servers 5 --jitter 1s --delay 50ms
  evenkeel bench fleet --repeats 10 --json`

func newBench(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure on real sockets",
		Long:    paragraphs(benchHelp),
		Example: "  evenkeel bench fleet",
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			return usage("say what to measure: %s", "evenkeel bench fleet")
		},
	}
	cmd.AddCommand(newBenchFleet(c))
	return cmd
}

func newBenchFleet(c *console) *cobra.Command {
	b := &bench{console: c}
	cmd := &cobra.Command{
		Use:     "fleet",
		Short:   "Measure how even a fleet comes out, beside the simulator",
		Long:    paragraphs(benchFleetHelp),
		Example: benchFleetExamples,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	flags := cmd.Flags()
	flags.IntVar(&b.own.clients, "clients", 200, fmt.Sprintf("the number of clients, 1 to %d", maxBenchClients))
	flags.IntVar(&b.own.servers, "servers", 10, fmt.Sprintf("the number of servers, 1 to %d", maxBenchServers))
	flags.DurationVar(&b.own.jitter, "jitter", sim.DefaultJitter, "the longest random wait before clients ask, up to 1m")
	flags.DurationVar(&b.own.delay, "delay", 0, fmt.Sprintf("hold answers to probes and reservations up, by %v at most", maxBenchDelay))
	flags.IntVar(&b.repeats, "repeats", 0, fmt.Sprintf("measure each as many times, up to %d (default 3, and 1 where the jitter is 1s or more)", maxBenchRepeats))
	flags.BoolVar(&b.asJSON, "json", false, "print JSON, an object a line")
	return cmd
}

// bench is a run of the command.
type bench struct {
	console *console
	own     crowd
	repeats int
	asJSON  bool
}

// crowd is a fleet that starts at once.
type crowd struct {
	clients, servers int
	jitter, delay    time.Duration
}

// crowds are what is measured unless one is asked for. In the last one 200 clients decide at once, 20 for each server, as
// of 1000 that start within 250 ms on a network with a round trip of 50 ms.
func crowds() []crowd {
	return []crowd{
		{200, 10, sim.DefaultJitter, 0},
		{200, 10, sim.DefaultJitter, 50 * time.Millisecond},
		{200, 10, 5 * time.Second, time.Second},
		{1000, 10, 5 * time.Second, 0},
		{1000, 10, 5 * time.Second, time.Second},
	}
}

// measuredAlgorithms are those that clients of this library have.
func measuredAlgorithms() []sim.Algorithm {
	return []sim.Algorithm{sim.Classic, sim.EvenkeelStock, sim.Evenkeel}
}

func (b *bench) run(cmd *cobra.Command) error {
	all := crowds()
	if slices.ContainsFunc([]string{"clients", "servers", "jitter", "delay"}, cmd.Flags().Changed) {
		all = []crowd{b.own}
	}
	if err := b.check(cmd.Flags().Changed("repeats")); err != nil {
		return err
	}
	for _, one := range all {
		if err := enoughFiles(one.files()); err != nil {
			return err
		}
	}
	for i, one := range all {
		rows, err := b.measure(cmd.Context(), one)
		if err != nil {
			return err
		}
		b.show(one, rows, i == 0)
	}
	return nil
}

// check finds what cannot be meant. repeated says that --repeats was given.
func (b *bench) check(repeated bool) error {
	if err := inRange("clients", b.own.clients, 1, maxBenchClients); err != nil {
		return err
	}
	if err := inRange("servers", b.own.servers, 1, maxBenchServers); err != nil {
		return err
	}
	if b.own.jitter < 0 || b.own.jitter > longestJitter {
		return usage("--jitter must lie between 0 and %v", longestJitter)
	}
	if b.own.delay < 0 || b.own.delay > maxBenchDelay {
		return usage("--delay must lie between 0 and %v", maxBenchDelay)
	}
	if repeated {
		return inRange("repeats", b.repeats, 1, maxBenchRepeats)
	}
	return nil
}

// repeatsOf is how many times a fleet is measured: chance weighs less in a large one, which takes longer.
func (b *bench) repeatsOf(one crowd) int {
	switch {
	case b.repeats > 0:
		return b.repeats
	case one.jitter >= time.Second:
		return 1
	default:
		return 3
	}
}

// files is how many files a fleet needs at most: both ends of each session, and of the connections of the prober.
func (c crowd) files() uint64 {
	const ofAnyProcess = 64
	connections := 2 + c.clients/500 // of the prober, to each server: with room for half of what the servers allow on one
	return uint64(2*c.clients + 2*connections*c.servers + ofAnyProcess)
}

// atOnce is how many other clients decide on counts before they show what one has decided.
func (c crowd) atOnce(age, spread time.Duration) float64 {
	others := float64(c.clients - 1)
	if age >= spread {
		return others
	}
	return others * float64(age) / float64(spread)
}

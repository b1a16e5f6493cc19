// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evenkeel-go/evenkeel/sim"
)

// The bounds of the flags.
const (
	maxSimulatedClients = sim.MaxClients
	maxSimulatedServers = sim.MaxServers
	maxRepeats          = 10_000
	// suiteBar is the one suite that there is.
	suiteBar = "bar"
	// historyPoints is how many points in time the page shows.
	historyPoints = 240
)

const simulateHelp = `
Simulate a fleet of clients and the servers that they spread over. The decisions of classic, evenkeel and rebalancing are
made by the code of the real client; servers, network and time are simulated, so an hour passes in moments. Each
algorithm meets the same scenario, and the one that spreads its clients best comes out closest to 1:

  random          picks blindly
  round-robin     takes turns from a random start
  classic         asks all servers and takes the minimum, as stock clients do
  two-choices     asks two and takes the minimum
  evenkeel-stock  this client with stock servers
  evenkeel        this client with servers of its own kind

The scenarios:

%s

With --rebalance 30s this client looks around about so often, and moves from servers that have more clients than others,
as programs with WithRebalance do. What happens to servers then happens later, and is watched for longer.

With --suite bar it measures cold starts of 2 to 10000 clients against the bar that this client has to meet.

With --html FILE it writes a page that needs nothing else: the comparison, and the connections of each server over time.

With --json, one object a line for each algorithm; fields without a value are
left out:

  clients              the size of the fleet
  servers              how many servers there are
  rtt_ms               the round trip
  scenario             its name; not with --suite
  algorithm            one of those above
  max_over_mean        the busiest server's clients over the mean of those
                       that serve, on average over the repeats; with
                       capacities, over its share; left out when nobody is
                       connected at the end
  stderr               the standard error of that
  worst                the worst repeat; not with --suite
  requests_per_client  probes, reservations and releases
  decide_ms_mean       from the start of a client to its pick
  connected            clients with a session at the end; not with --suite
  even                 repeats that were even at the end: no server with more
                       than 1.05 times its share, rounded up; these fields
                       where something happens or with --rebalance
  even_after_s         how long after the last event these were, on average
  even_most_s          and the longest of them
  moved                with --rebalance, the part of the clients that moved
  moved_twice          and how many did so more than once, in all repeats
  stock_max_over_mean  of the stock clients alone, in a mixed fleet
  stock_load           how full the servers of these are, by all clients, over
                       the mean; 1 where all servers are equally full
  stock_decide_ms_mean and their time
  bar                  with --suite, the most that max_over_mean may be
  met                  with --suite, whether it was met, with 20 requests at
                       most and in time`

const simulateExamples = `  evenkeel simulate
  evenkeel simulate --clients 10000 --servers 100 --repeats 1
  evenkeel simulate --scenario rolling-restart --servers 5 --html page.html
  evenkeel simulate --scenario scale-up --clients 300 --rebalance 30s
  evenkeel simulate --suite bar --json`

func newSimulate(c *console) *cobra.Command {
	s := &simulation{console: c}
	cmd := &cobra.Command{
		Use:     "simulate",
		Short:   "Simulate a fleet and compare how its clients pick",
		Long:    paragraphs(fmt.Sprintf(simulateHelp, scenarioList())),
		Example: simulateExamples,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&s.suite, "suite", "", "measure the rows of a suite instead of one scenario: bar")
	flags.StringVar(&s.scenario, "scenario", "cold-start", "what happens")
	flags.IntVar(&s.clients, "clients", 1000, fmt.Sprintf("the number of clients, 1 to %d", maxSimulatedClients))
	flags.IntVar(&s.servers, "servers", 10, fmt.Sprintf("the number of servers, 1 to %d", maxSimulatedServers))
	flags.DurationVar(&s.rtt, "rtt", 50*time.Millisecond, "the round trip between clients and servers, up to 2s")
	flags.DurationVar(&s.jitter, "jitter", sim.DefaultJitter, "the longest random wait before clients ask, up to 1m")
	flags.DurationVar(&s.rebalance, "rebalance", 0, "how often this client looks around, 100ms to 1h; 0 means never")
	flags.StringSliceVar(&s.algorithms, "algorithm", nil, "simulate these only, separated by commas")
	flags.Int64Var(&s.seed, "seed", 1, "where the random numbers begin; the same seed gives the same result")
	flags.IntVar(&s.repeats, "repeats", 0, fmt.Sprintf("repeat each with other seeds, up to %d times (default 5, and with --suite those of its rows)", maxRepeats))
	flags.StringVar(&s.html, "html", "", "write a page into this file")
	flags.BoolVar(&s.asJSON, "json", false, "print JSON")
	return cmd
}

// scenarioList explains the scenarios in lines of their own.
func scenarioList() string {
	var lines []string
	for _, kind := range sim.Presets() {
		lines = append(lines, fmt.Sprintf("  %-17s  %s", kind.Name, kind.About))
	}
	return strings.Join(lines, "\n")
}

// simulation is a run of the command.
type simulation struct {
	console          *console
	suite, scenario  string
	clients, servers int
	rtt, jitter      time.Duration
	rebalance        time.Duration
	algorithms       []string
	seed             int64
	repeats          int
	html             string
	asJSON           bool
}

// suiteRow is the object of simulate --suite --json.
type suiteRow struct {
	Clients           int           `json:"clients"`
	Servers           int           `json:"servers"`
	RTT               float64       `json:"rtt_ms"`
	Algorithm         sim.Algorithm `json:"algorithm"`
	MaxOverMean       float64       `json:"max_over_mean"`
	StandardError     float64       `json:"stderr"`
	RequestsPerClient float64       `json:"requests_per_client"`
	DecideMean        float64       `json:"decide_ms_mean"`
	Bar               float64       `json:"bar"`
	Met               bool          `json:"met"`
}

// scenarioRow is the object of simulate --json.
type scenarioRow struct {
	Scenario          string        `json:"scenario"`
	Clients           int           `json:"clients"`
	Servers           int           `json:"servers"`
	RTT               float64       `json:"rtt_ms"`
	Algorithm         sim.Algorithm `json:"algorithm"`
	MaxOverMean       *float64      `json:"max_over_mean,omitempty"`
	StandardError     float64       `json:"stderr"`
	Worst             *float64      `json:"worst,omitempty"`
	RequestsPerClient float64       `json:"requests_per_client"`
	DecideMean        float64       `json:"decide_ms_mean"`
	Connected         float64       `json:"connected"`
	Even              *int          `json:"even,omitempty"`
	EvenAfter         *float64      `json:"even_after_s,omitempty"`
	EvenMost          *float64      `json:"even_most_s,omitempty"`
	Moved             *float64      `json:"moved,omitempty"`
	MovedTwice        *int          `json:"moved_twice,omitempty"`
	StockMaxOverMean  *float64      `json:"stock_max_over_mean,omitempty"`
	StockLoad         *float64      `json:"stock_load,omitempty"`
	StockDecideMean   *float64      `json:"stock_decide_ms_mean,omitempty"`
}

func (s *simulation) run(cmd *cobra.Command) error {
	chosen, err := s.check(cmd)
	if err != nil {
		return err
	}
	if s.suite != "" {
		return s.runSuite(cmd.Context(), chosen)
	}
	return s.runScenario(cmd.Context(), chosen)
}

// check finds what cannot be meant, before anything is begun, and returns the algorithms.
func (s *simulation) check(cmd *cobra.Command) ([]sim.Algorithm, error) {
	if s.suite != "" {
		if s.suite != suiteBar {
			return nil, usage("there is no such suite: give --suite %s", suiteBar)
		}
		for _, flag := range []string{"scenario", "clients", "servers", "rtt", "jitter", "rebalance", "html"} {
			if cmd.Flags().Changed(flag) {
				return nil, usage("--suite has scenarios of its own: leave --%s out", flag)
			}
		}
	}
	if cmd.Flags().Changed("repeats") {
		if err := inRange("repeats", s.repeats, 1, maxRepeats); err != nil {
			return nil, err
		}
	}
	if err := inRange("clients", s.clients, 1, maxSimulatedClients); err != nil {
		return nil, err
	}
	if err := inRange("servers", s.servers, 1, maxSimulatedServers); err != nil {
		return nil, err
	}
	if s.rtt < 0 || s.rtt > 2*time.Second {
		return nil, usage("--rtt must lie between 0 and 2s")
	}
	if s.jitter < 0 || s.jitter > time.Minute {
		return nil, usage("--jitter must lie between 0 and 1m")
	}
	if s.rebalance != 0 && (s.rebalance < 100*time.Millisecond || s.rebalance > time.Hour) {
		return nil, usage("--rebalance must be 0 or lie between 100ms and 1h")
	}
	return s.chosen()
}

// chosen returns the algorithms that were asked for, each once; all where none was.
func (s *simulation) chosen() ([]sim.Algorithm, error) {
	var chosen []sim.Algorithm
	for _, name := range s.algorithms {
		algorithm := sim.Algorithm(strings.ToLower(strings.TrimSpace(name)))
		if !slices.Contains(sim.Algorithms(), algorithm) {
			return nil, usage("--algorithm takes of %s", listOf(sim.Algorithms()))
		}
		if !slices.Contains(chosen, algorithm) {
			chosen = append(chosen, algorithm)
		}
	}
	if len(chosen) == 0 {
		chosen = sim.Algorithms()
	}
	return chosen, nil
}

func listOf(algorithms []sim.Algorithm) string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = string(a)
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func (s *simulation) runSuite(ctx context.Context, chosen []sim.Algorithm) error {
	bar := newProgress(s.console, "simulating")
	rows, err := sim.BarSuite(ctx, sim.SuiteConfig{Algorithms: chosen, Seed: uint64(s.seed), Repeats: s.repeats, Progress: bar.show})
	bar.end()
	if err := interrupted(ctx); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if s.asJSON {
		for i := range rows {
			s.console.object(suiteRowOf(&rows[i]))
		}
	} else {
		s.showSuite(rows)
	}
	return missed(rows)
}

func suiteRowOf(m *sim.Measured) suiteRow {
	return suiteRow{
		Clients: m.Bar.Clients, Servers: m.Bar.Servers, RTT: milliseconds(m.Bar.RTT), Algorithm: m.Algorithm,
		MaxOverMean: rounded(m.MaxOverMean), StandardError: rounded(m.StandardError),
		RequestsPerClient: rounded(m.RequestsPerClient), DecideMean: rounded(milliseconds(m.DecideMean)), Bar: m.Most, Met: m.Met,
	}
}

func (s *simulation) runScenario(ctx context.Context, chosen []sim.Algorithm) error {
	size := sim.Size{Clients: s.clients, Servers: s.servers, RTT: s.rtt, Rebalance: s.rebalance}
	scenario, err := sim.Preset(s.scenario, size)
	if err != nil {
		return &usageError{err: err}
	}
	scenario.Jitter = s.jitter
	if s.repeats == 0 {
		s.repeats = 5
	}
	points := 0
	var page *draft
	if s.html != "" {
		points = historyPoints
		if page, err = beginDraft(s.html); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
		defer page.drop()
	}
	bar := newProgress(s.console, "simulating")
	compared, err := sim.Compare(ctx, sim.CompareConfig{
		Scenario: scenario, Algorithms: chosen, Seed: uint64(s.seed), Repeats: s.repeats, Points: points, Progress: bar.show,
	})
	bar.end()
	if err := interrupted(ctx); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if page != nil {
		if err := page.keep(func(w io.Writer) error { return sim.WritePage(w, scenario, compared) }); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
		s.console.complain("wrote %s", s.html)
	}
	if s.asJSON {
		for i := range compared {
			s.console.object(scenarioRowOf(&scenario, &compared[i]))
		}
		return nil
	}
	s.showScenario(&scenario, compared)
	return nil
}

// optional is a value that a row may be without.
func optional(x float64) *float64 {
	x = rounded(x)
	return &x
}

// ratio is that of a number to a mean, which is 0 where there is none.
func ratio(x float64) *float64 {
	if x == 0 {
		return nil
	}
	return optional(x)
}

func scenarioRowOf(scenario *sim.Scenario, c *sim.Compared) scenarioRow {
	row := scenarioRow{
		Scenario: scenario.Name, Clients: scenario.Clients, Servers: scenario.Servers, RTT: milliseconds(scenario.RTT), Algorithm: c.Algorithm,
		MaxOverMean: ratio(c.MaxOverMean), StandardError: rounded(c.StandardError), Worst: ratio(c.Worst),
		RequestsPerClient: rounded(c.RequestsPerClient), DecideMean: rounded(milliseconds(c.DecideMean)), Connected: rounded(c.Connected),
	}
	if tracked(scenario) {
		row.Even = &c.Even
		if c.Even > 0 {
			row.EvenAfter, row.EvenMost = optional(c.EvenAfter.Seconds()), optional(c.EvenMost.Seconds())
		}
	}
	if scenario.Rebalance > 0 {
		row.Moved, row.MovedTwice = optional(c.Rebalanced), &c.RebalancedTwice
	}
	if scenario.StockClients > 0 {
		row.StockMaxOverMean, row.StockLoad = ratio(c.StockMaxOverMean), ratio(c.StockLoad)
		row.StockDecideMean = optional(milliseconds(c.StockDecideMean))
	}
	return row
}

// tracked says that the simulation tells when a fleet was even.
func tracked(scenario *sim.Scenario) bool { return len(scenario.Events) > 0 || scenario.Rebalance > 0 }

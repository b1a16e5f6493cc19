// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evenkeel-go/evenkeel/internal/decide"
	"github.com/evenkeel-go/evenkeel/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func preset(t *testing.T, name string, clients, servers int) sim.Scenario {
	t.Helper()
	scenario, err := sim.Preset(name, sim.Size{Clients: clients, Servers: servers, RTT: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return scenario
}

func run(t *testing.T, scenario sim.Scenario, algorithm sim.Algorithm, seed uint64) sim.Result {
	t.Helper()
	result, err := sim.Run(t.Context(), scenario, algorithm, seed)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// Ours meets every row of the bar that is small enough for a test. The others are for evenkeel simulate --suite bar.
func TestOursMeetsTheBar(t *testing.T) {
	t.Parallel()
	rows, err := sim.BarSuite(t.Context(), sim.SuiteConfig{
		Bars: sim.Bars()[:5], Algorithms: []sim.Algorithm{sim.Evenkeel, sim.EvenkeelStock},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 10 {
		t.Fatalf("%d rows, want 10", len(rows))
	}
	for _, m := range rows {
		if !m.Met {
			t.Errorf("%d clients, %d servers, %v, %s: max/mean %.4f (bar %.3f), %.1f requests, %v to decide",
				m.Bar.Clients, m.Bar.Servers, m.Bar.RTT, m.Algorithm, m.MaxOverMean, m.Most, m.RequestsPerClient, m.DecideMean)
		}
	}
}

// The simulator shows what is known of the stock algorithm and of blind picks; else it would prove nothing.
func TestTheOthersComeOutAsIsKnown(t *testing.T) {
	t.Parallel()
	herd := sim.Bar{Clients: 1000, Servers: 10, RTT: 50 * time.Millisecond, Repeats: 20}
	calm := sim.Bar{Clients: 100, Servers: 4, RTT: time.Millisecond, Repeats: 20}
	for _, tt := range []struct {
		bar         sim.Bar
		algorithm   sim.Algorithm
		least, most float64
	}{
		{herd, sim.Random, 1.10, 1.20},
		{herd, sim.Classic, 2.1, 2.5},
		{herd, sim.TwoChoices, 1.12, 1.20},
		{calm, sim.Random, 1.15, 1.27},
		{calm, sim.Classic, 1.00, 1.03},
	} {
		rows, err := sim.BarSuite(t.Context(), sim.SuiteConfig{Bars: []sim.Bar{tt.bar}, Algorithms: []sim.Algorithm{tt.algorithm}})
		if err != nil {
			t.Fatal(err)
		}
		if got := rows[0].MaxOverMean; got < tt.least || got > tt.most {
			t.Errorf("%d clients, %s: max/mean %.3f, known is %v to %v", tt.bar.Clients, tt.algorithm, got, tt.least, tt.most)
		}
	}
}

func TestTheSameSeedGivesTheSame(t *testing.T) {
	t.Parallel()
	for _, kind := range sim.Presets() {
		scenario := preset(t, kind.Name, 60, 5)
		for _, algorithm := range sim.Algorithms() {
			first, second := run(t, scenario, algorithm, 7), run(t, scenario, algorithm, 7)
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("%s, %s: two runs differ:\n%s", kind.Name, algorithm, diff)
			}
		}
	}
	scenario := preset(t, "cold-start", 200, 5)
	if cmp.Equal(run(t, scenario, sim.Random, 1), run(t, scenario, sim.Random, 2)) {
		t.Error("two seeds give the same")
	}
}

func TestEveryScenarioEndsWithAllConnected(t *testing.T) {
	t.Parallel()
	for _, kind := range sim.Presets() {
		for _, algorithm := range sim.Algorithms() {
			scenario := preset(t, kind.Name, 60, 5)
			result := run(t, scenario, algorithm, 3)
			sum := 0
			for _, count := range result.Counts {
				sum += count
			}
			if result.Connected != scenario.Clients || sum != scenario.Clients {
				t.Errorf("%s, %s: %d of %d clients are connected, %d by the servers' counts", kind.Name, algorithm, result.Connected, scenario.Clients, sum)
			}
			if blind := algorithm == sim.Random || algorithm == sim.RoundRobin; (result.Requests == 0) != (blind && scenario.StockClients == 0) {
				t.Errorf("%s, %s: %d requests", kind.Name, algorithm, result.Requests)
			}
		}
	}
}

func TestCapacitiesAreFilledInProportion(t *testing.T) {
	t.Parallel()
	result := run(t, preset(t, "capacities", 300, 4), sim.Evenkeel, 1)
	for i, want := range []int{50, 100, 50, 100} {
		if got := result.Counts[i]; math.Abs(float64(got-want)) > 2 {
			t.Errorf("server %d has %d clients, want about %d", i, got, want)
		}
	}
	if result.MaxOverMean > 1.03 {
		t.Errorf("max/mean %.3f, want about 1: it goes by capacity", result.MaxOverMean)
	}
}

// Where half of the clients are stock ones, the whole is no worse than where all are.
func TestAMixedFleetIsNoWorse(t *testing.T) {
	t.Parallel()
	mixed, all := 0.0, 0.0
	for seed := range uint64(10) {
		mixed += run(t, preset(t, "mixed-fleet", 1000, 10), sim.Evenkeel, seed).MaxOverMean / 10
		all += run(t, preset(t, "cold-start", 1000, 10), sim.Classic, seed).MaxOverMean / 10
	}
	if mixed > all {
		t.Errorf("mixed %.3f, all stock %.3f", mixed, all)
	}
}

// Nor is it for the stock clients themselves: their servers are no fuller than they would be in a fleet of their kind, and
// they need as long to decide.
func TestAMixedFleetIsNoWorseForItsStockClients(t *testing.T) {
	t.Parallel()
	for _, size := range []sim.Size{
		{Clients: 1000, Servers: 10, RTT: 50 * time.Millisecond},
		{Clients: 300, Servers: 5, RTT: 20 * time.Millisecond},
		{Clients: 100, Servers: 4, RTT: time.Millisecond},
	} {
		scenario, err := sim.Preset("mixed-fleet", size)
		if err != nil {
			t.Fatal(err)
		}
		compared, err := sim.Compare(t.Context(), sim.CompareConfig{
			Scenario: scenario, Repeats: 20, Algorithms: []sim.Algorithm{sim.Classic, sim.EvenkeelStock, sim.Evenkeel},
		})
		if err != nil {
			t.Fatal(err)
		}
		before := &compared[0]
		for i := range compared[1:] {
			c := &compared[1+i]
			if c.StockLoad > before.StockLoad || c.StockDecideMean > before.StockDecideMean+5*time.Millisecond || c.StockMaxOverMean == 0 {
				t.Errorf("%d clients, %s: stock clients are on servers with %.3f times the mean, were %.3f; after %v, was %v",
					size.Clients, c.Algorithm, c.StockLoad, before.StockLoad, c.StockDecideMean, before.StockDecideMean)
			}
		}
	}
}

// A fleet that rebalances is even within four looks of each client, whatever happened, and moves no more than it must.
func TestAFleetThatRebalancesIsEvenAgain(t *testing.T) {
	t.Parallel()
	const interval = 30 * time.Second
	for name, most := range map[string]float64{"scale-up": .45, "rolling-restart": .25, "back": .25, "cold-start": .01} {
		scenario, err := sim.Preset(name, sim.Size{Clients: 300, Servers: 5, RTT: 20 * time.Millisecond, Rebalance: interval})
		if err != nil {
			t.Fatal(err)
		}
		compared, err := sim.Compare(t.Context(), sim.CompareConfig{
			Scenario: scenario, Repeats: 10, Algorithms: []sim.Algorithm{sim.Classic, sim.EvenkeelStock, sim.Evenkeel},
		})
		if err != nil {
			t.Fatal(err)
		}
		if classic := &compared[0]; classic.Rebalanced > 0 || classic.Even > 0 && len(scenario.Events) > 0 {
			t.Errorf("%s: %d fleets of stock clients became even, %.3f moved", name, classic.Even, classic.Rebalanced)
		}
		for _, c := range compared[1:] {
			if c.Even != 10 || c.EvenMost > 4*interval || c.Rebalanced > most || c.RebalancedTwice > 0 || c.Connected != 300 {
				t.Errorf("%s, %s: %d of 10 even, after %v at most, %.3f moved, %d twice, %v connected",
					name, c.Algorithm, c.Even, c.EvenMost, c.Rebalanced, c.RebalancedTwice, c.Connected)
			}
		}
	}
}

// A server that begins to lie when the fleet has settled does not draw the fleet to it, nor keep it moving. At the worst it
// loses its clients to the others.
func TestLiesMoveNobodyBackAndForth(t *testing.T) {
	t.Parallel()
	const honest = 1500 // answers
	flip := 0
	for name, tt := range map[string]struct {
		lie  func(*decide.Answer)
		most float64 // moves of each client in an hour, on average
	}{
		"one that counts nobody":   {func(a *decide.Answer) { a.Connections = 0 }, .2},
		"one that counts millions": {func(a *decide.Answer) { a.Connections = 1 << 40 }, .3},
		"one that counts anything": {func(a *decide.Answer) {
			if flip++; flip%2 == 0 {
				a.Connections *= 1000
			}
		}, 2.5},
	} {
		for _, algorithm := range []sim.Algorithm{sim.EvenkeelStock, sim.Evenkeel} {
			scenario := sim.Scenario{
				Clients: 300, Servers: 5, RTT: 20 * time.Millisecond, Jitter: sim.DefaultJitter, Rebalance: 30 * time.Second, Length: time.Hour,
			}
			answers := 0
			result := sim.RunLyingForTest(scenario, algorithm, 1, 1, func(a *decide.Answer) {
				if answers++; answers > honest {
					tt.lie(a)
				}
			})
			t.Logf("%s, %s: %v, %d moves, %d clients more than once", name, algorithm, result.Counts, result.Rebalanced, result.RebalancedTwice)
			if moved := float64(result.Rebalanced) / 300; moved > tt.most || result.Connected != 300 || answers < 2*honest {
				t.Errorf("%s, %s: %.3f moves of each client in an hour, %d connected", name, algorithm, moved, result.Connected)
			}
			if withoutIt := 5. / 4; result.MaxOverMean > withoutIt*1.08 {
				t.Errorf("%s, %s: max/mean %.3f, without that server it were %.3f", name, algorithm, result.MaxOverMean, withoutIt)
			}
		}
	}
}

// Servers that lie about how many come, or about their counts beyond all reason, make it no worse than blind picks.
func TestLiesMakeItNoWorseThanRandom(t *testing.T) {
	t.Parallel()
	scenario := sim.Scenario{Clients: 1000, Servers: 10, RTT: 50 * time.Millisecond, Jitter: sim.DefaultJitter, Length: time.Minute}
	flip := 0
	for name, tt := range map[string]struct {
		liars int
		lie   func(*decide.Answer)
	}{
		"nobody comes":        {10, func(a *decide.Answer) { a.Rate = 0 }},
		"all the world comes": {10, func(a *decide.Answer) { a.Rate = math.Inf(1) }},
		"a negative rate":     {10, func(a *decide.Answer) { a.Rate = -5 }},
		"no number":           {10, func(a *decide.Answer) { a.Rate = math.NaN() }},
		"a huge count":        {1, func(a *decide.Answer) { a.Connections = math.MaxInt }},
		"huge counts":         {10, func(a *decide.Answer) { a.Connections = math.MaxInt }},
		"counts that jump": {1, func(a *decide.Answer) {
			if flip++; flip%2 == 0 {
				a.Connections *= 1000
			}
		}},
		"one that counts nobody": {1, func(a *decide.Answer) { a.Connections = 0 }},
	} {
		got, random := 0.0, 0.0
		for seed := range uint64(10) {
			result := sim.RunLyingForTest(scenario, sim.Evenkeel, seed, tt.liars, tt.lie)
			if result.Connected != scenario.Clients {
				t.Errorf("%s: %d clients are connected", name, result.Connected)
			}
			got += result.MaxOverMean / 10
			random += sim.RandomForTest(scenario, seed) / 10
		}
		if got > random {
			t.Errorf("%s: max/mean %.3f, random picks %.3f", name, got, random)
		}
	}
}

// Where a lie gets more than random picks give, that is bounded: by 16 times the part of the others for a capacity; by twice
// its part of a crowd for a stock server that counts nobody; and afterwards those that rebalance leave such a one until about
// as many are there as random picks bring.
func TestLiesThatPayAreBounded(t *testing.T) {
	t.Parallel()
	nobody, huge := func(a *decide.Answer) { a.Connections = 0 }, func(a *decide.Answer) { a.Capacity = math.MaxInt }
	for name, tt := range map[string]struct {
		algorithm  sim.Algorithm
		jitter     time.Duration
		rebalance  time.Duration
		lie        func(*decide.Answer)
		capacities []uint16
		most       int // of 1000 clients, 10 servers
	}{
		"a capacity, our servers":         {sim.Evenkeel, sim.DefaultJitter, 0, huge, []uint16{1}, 660},
		"a capacity, one after the other": {sim.Evenkeel, time.Minute, 0, huge, []uint16{1}, 660},
		"a count of 0, in a crowd":        {sim.EvenkeelStock, sim.DefaultJitter, 0, nobody, nil, 220},
		"0 in a crowd, and rebalancing":   {sim.EvenkeelStock, sim.DefaultJitter, 30 * time.Second, nobody, nil, 150},
		"a count of 0, and rebalancing":   {sim.EvenkeelStock, time.Minute, 30 * time.Second, nobody, nil, 150},
		"our server's 0, and rebalancing": {sim.Evenkeel, time.Minute, 30 * time.Second, nobody, nil, 150},
	} {
		scenario := sim.Scenario{
			Clients: 1000, Servers: 10, RTT: 20 * time.Millisecond, Jitter: tt.jitter, Rebalance: tt.rebalance, Capacities: tt.capacities,
			Length: 10 * time.Minute,
		}
		result := sim.RunLyingForTest(scenario, tt.algorithm, 1, 1, tt.lie)
		t.Logf("%s: %v, %d moves", name, result.Counts, result.Rebalanced)
		if result.Counts[0] > tt.most || result.Connected != 1000 || result.RebalancedTwice > 0 {
			t.Errorf("%s: %v, want at most %d; %d moved twice", name, result.Counts, tt.most, result.RebalancedTwice)
		}
	}
}

// A server that tells a count that is too high keeps the others from being even for a few minutes at most.
func TestAHighCountDoesNotStopTheFleet(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []sim.Algorithm{sim.EvenkeelStock, sim.Evenkeel} {
		scenario, err := sim.Preset("scale-up", sim.Size{Clients: 300, Servers: 6, RTT: 20 * time.Millisecond, Rebalance: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		scenario.Length = 12 * time.Minute
		result := sim.RunLyingForTest(scenario, algorithm, 1, 1, func(a *decide.Answer) { a.Connections = 1000 })
		t.Logf("%s: %v, %d moves", algorithm, result.Counts, result.Rebalanced)
		for server, count := range result.Counts[1:] {
			if count < 50 || count > 66 {
				t.Errorf("%s: server %d has %d clients: %v", algorithm, 1+server, count, result.Counts)
			}
		}
	}
}

// Where some servers do not tell their capacity, clients agree on what each is to have, whichever they have asked.
func TestMissingCapacitiesMoveNobodyBackAndForth(t *testing.T) {
	t.Parallel()
	scenario := sim.Scenario{
		Clients: 300, Servers: 20, RTT: 20 * time.Millisecond, Jitter: sim.DefaultJitter, Capacities: []uint16{1, 2},
		Rebalance: 30 * time.Second, Length: time.Hour,
	}
	result := sim.RunUnweightedForTest(scenario, sim.Evenkeel, 1, 1, func(a *decide.Answer) { a.Capacity = 0 })
	t.Logf("%d moves, %v", result.Rebalanced, result.Counts)
	if result.Rebalanced > 15 || result.RebalancedTwice > 0 {
		t.Errorf("%d moves in an hour, %d moved twice: %v", result.Rebalanced, result.RebalancedTwice, result.Counts)
	}
}

// A server that falls and rises all the time is filled a few times, and then left alone.
func TestAServerThatFlapsMovesFewClients(t *testing.T) {
	t.Parallel()
	scenario := sim.Scenario{
		Clients: 300, Servers: 6, RTT: 20 * time.Millisecond, Jitter: sim.DefaultJitter, Rebalance: 30 * time.Second, Length: time.Hour,
	}
	for i := range 50 {
		fall := time.Minute + time.Duration(i)*70*time.Second
		scenario.Events = append(scenario.Events, sim.Event{At: fall, Kind: sim.Die}, sim.Event{At: fall + 35*time.Second, Kind: sim.Rise})
	}
	for _, algorithm := range []sim.Algorithm{sim.EvenkeelStock, sim.Evenkeel} {
		result := run(t, scenario, algorithm, 1)
		t.Logf("%s: %d moves, %v", algorithm, result.Rebalanced, result.Counts)
		if result.Rebalanced > 300 {
			t.Errorf("%s: %d moves of 300 clients in an hour", algorithm, result.Rebalanced)
		}
	}
}

// With few clients on each of many servers, one too many is two of a hundred clients in the fleet: they are found in time.
func TestALargeFleetWithFewClientsOnEachServerIsEvenAgain(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{300, 15}, {600, 30}} {
		for _, name := range []string{"scale-up", "back", "rolling-restart"} {
			scenario, err := sim.Preset(name, sim.Size{Clients: size[0], Servers: size[1], RTT: 20 * time.Millisecond, Rebalance: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			compared, err := sim.Compare(t.Context(), sim.CompareConfig{
				Scenario: scenario, Repeats: 5, Algorithms: []sim.Algorithm{sim.EvenkeelStock, sim.Evenkeel},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range compared {
				if c.Even != 5 || c.Rebalanced > .4 || c.RebalancedTwice > 0 {
					t.Errorf("%v, %s, %s: %d of 5 even, %.3f moved, %d twice", size, name, c.Algorithm, c.Even, c.Rebalanced, c.RebalancedTwice)
				}
			}
		}
	}
}

func TestReservationsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	scenario := sim.Scenario{Clients: 1000, Servers: 10, RTT: 50 * time.Millisecond, Jitter: sim.DefaultJitter, Length: time.Minute}
	for _, algorithm := range []sim.Algorithm{sim.Classic, sim.EvenkeelStock, sim.Evenkeel} {
		if left, least := sim.LeftoverForTest(scenario, algorithm, 1); left != 0 || least < 0 {
			t.Errorf("%s: %d reservations are left, and a count was %d", algorithm, left, least)
		}
	}
}

func TestScenarioValidate(t *testing.T) {
	t.Parallel()
	fine := sim.Scenario{Clients: 1, Servers: 1, Length: time.Second}
	if err := fine.Validate(); err != nil {
		t.Errorf("got %v for the least there is", err)
	}
	bad := sim.Scenario{
		Clients: -1, Servers: 0, Later: 2, RTT: -1, RTTs: []time.Duration{time.Hour}, Jitter: -1, StockClients: 2, LoseReservations: math.NaN(),
		Events: []sim.Event{{At: -1, Server: 9, Kind: 99}},
	}
	err := bad.Validate()
	for _, want := range []string{"-1 clients", "0 servers", "come later", "round trip of -1ns", "round trip of 1h", "jitter", "length", "stock", "lost", "server 9", "event 99"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	if _, err := sim.Run(t.Context(), bad, sim.Random, 1); err == nil {
		t.Error("it was run")
	}
	if _, err := sim.Run(t.Context(), fine, "guess", 1); err == nil {
		t.Error("an unknown algorithm was run")
	}
	for _, name := range []string{"scale-up", "scale-down"} {
		_, err := sim.Preset(name, sim.Size{Clients: 1, Servers: 2})
		if err == nil || !strings.Contains(err.Error(), name+" needs 3 servers at least, got 2") {
			t.Errorf("%s with two servers: %v, want how many it needs", name, err)
		}
		if _, err := sim.Preset(name, sim.Size{Clients: 1, Servers: 3}); err != nil {
			t.Errorf("%s with three servers: %v", name, err)
		}
	}
	if _, err := sim.Preset("round-trips", sim.Size{Clients: 1, Servers: 3, RTT: 2 * time.Second}); err == nil || !strings.Contains(err.Error(), "of 1s at most, got 2s") {
		t.Errorf("round trips that would be doubled beyond the bound: %v, want what is possible", err)
	}
	crowd := sim.Scenario{Clients: sim.MaxClients, Servers: sim.MaxServers, Length: time.Second}
	_, single := sim.Run(t.Context(), crowd, sim.Classic, 1)
	_, several := sim.Compare(t.Context(), sim.CompareConfig{Scenario: crowd, Repeats: 2})
	for _, err := range []error{single, several} {
		if err == nil || strings.Count(err.Error(), "probes in all are possible") != 1 {
			t.Errorf("more probes than there is memory for: %v, want to be told once", err)
		}
	}
	if _, err := sim.Preset("nothing", sim.Size{Clients: 1, Servers: 1}); err == nil || !strings.Contains(err.Error(), "rolling-restart") {
		t.Errorf("an unknown preset: %v, want the names of those there are", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sim.Run(ctx, preset(t, "cold-start", 10_000, 100), sim.Classic, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if _, err := sim.BarSuite(ctx, sim.SuiteConfig{}); !errors.Is(err, context.Canceled) {
		t.Errorf("BarSuite: %v", err)
	}
}

// What was given up is not done.
func TestProgressOfWhatIsGivenUpIsNotFull(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var told []int
	_, err := sim.Compare(ctx, sim.CompareConfig{
		Scenario: preset(t, "cold-start", 2000, 20), Algorithms: []sim.Algorithm{sim.Evenkeel}, Workers: 1,
		Progress: func(done, _ int) {
			told = append(told, done)
			cancel()
		},
	})
	if !errors.Is(err, context.Canceled) || !slices.Equal(told, []int{0}) {
		t.Errorf("%v, and progress %v, want that none is done", err, told)
	}
}

func TestCompareAndPage(t *testing.T) {
	t.Parallel()
	scenario := preset(t, "death", 90, 3)
	done := 0
	compared, err := sim.Compare(t.Context(), sim.CompareConfig{
		Scenario: scenario, Repeats: 2, Points: 30, Workers: 2,
		Progress: func(now, all int) {
			if now != done || all != 12 {
				t.Errorf("progress %d of %d, want %d of 12", now, all, done)
			}
			done++
		},
	})
	if err != nil || done != 13 {
		t.Fatalf("%v after progress was told %d times, want 13", err, done)
	}
	if history := compared[0].First.History; len(history) != 30 || len(history[29].Counts) != 3 {
		t.Errorf("a history of %d points: %+v", len(history), history[len(history)-1])
	}
	var page strings.Builder
	if err := sim.WritePage(&page, scenario, compared); err != nil {
		t.Fatal(err)
	}
	for _, algorithm := range sim.Algorithms() {
		if !strings.Contains(page.String(), string(algorithm)) {
			t.Errorf("the page does not name %s", algorithm)
		}
	}
	if got := strings.Count(page.String(), `class="server"`); got != 3*len(compared) {
		t.Errorf("%d lines of servers, want %d", got, 3*len(compared))
	}
	for _, foreign := range []string{"http:", "https:", "src=", "@import", "ZgotmplZ"} {
		if strings.Contains(page.String(), foreign) {
			t.Errorf("the page has %q in it", foreign)
		}
	}
}

func ExampleRun() {
	scenario, err := sim.Preset("cold-start", sim.Size{Clients: 1000, Servers: 10, RTT: 50 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, algorithm := range []sim.Algorithm{sim.Classic, sim.Evenkeel} {
		result, err := sim.Run(context.Background(), scenario, algorithm, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: all connected %t, twice the mean on one server %t\n", algorithm, result.Connected == 1000, result.MaxOverMean > 2)
	}
	// Output:
	// classic: all connected true, twice the mean on one server true
	// evenkeel: all connected true, twice the mean on one server false
}

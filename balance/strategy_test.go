// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

func pick(t *testing.T, strategy balance.Strategy, candidates []discover.Endpoint) balance.Selection {
	t.Helper()
	selection, err := strategy.Select(t.Context(), candidates)
	if err != nil {
		t.Fatal(err)
	}
	return selection
}

func TestNoCandidates(t *testing.T) {
	t.Parallel()
	leastConnections, err := balance.NewLeastConnections(balance.LeastConnectionsConfig{Prober: &fakeProber{}})
	if err != nil {
		t.Fatal(err)
	}
	for name, strategy := range map[string]balance.Strategy{
		"least-connections": leastConnections,
		"round-robin":       balance.NewRoundRobin(),
		"random":            balance.NewRandom(),
	} {
		if _, err := strategy.Select(context.Background(), nil); !errors.Is(err, balance.ErrNoCandidates) {
			t.Errorf("%s: got %v, want ErrNoCandidates", name, err)
		}
	}
}

func TestRoundRobin(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		lists []string // the candidates of each selection
		want  string   // the picks, when the first is a
	}{
		{"moves by one", []string{"abc", "abc", "abc", "abc", "abc"}, "abcab"},
		{"one candidate", []string{"a", "a", "a"}, "aaa"},
		{"weights aside, a removed candidate that was picked makes room for the next", []string{"abc", "bc", "bc"}, "abc"},
		{"a removed candidate before the last pick skips nobody", []string{"abcd", "abcd", "bcd", "bcd"}, "abcd"},
		{"an added candidate before the last pick repeats nobody", []string{"abc", "xabc", "xabc", "xabc"}, "abcx"},
		{"the last one of the list failed", []string{"ab", "ab", "a"}, "aba"},
		{"all others", []string{"abc", "xyz"}, "ax"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			strategy := balance.NewRoundRobin()
			seed := uint64(0)
			got := ""
			for got != "a" { // the start is random: look for a source that starts at a
				strategy = balance.NewRoundRobin()
				balance.SeedForTest(strategy, seed)
				seed++
				got = pick(t, strategy, nodes(test.lists[0])).Endpoint.Host
			}
			for _, list := range test.lists[1:] {
				got += pick(t, strategy, nodes(list)).Endpoint.Host
			}
			if got != test.want {
				t.Errorf("picks %q, want %q", got, test.want)
			}
		})
	}
}

func TestRoundRobinStartsAnywhere(t *testing.T) {
	t.Parallel()
	started := map[string]int{}
	for seed := range uint64(300) {
		strategy := balance.NewRoundRobin()
		balance.SeedForTest(strategy, seed)
		started[pick(t, strategy, nodes("abc")).Endpoint.Host]++
	}
	for _, name := range []string{"a", "b", "c"} {
		if n := started[name]; n < 60 || n > 140 {
			t.Errorf("%d of 300 clients started at %s, want about 100", n, name)
		}
	}
}

func TestRoundRobinClientsDoNotShareAPosition(t *testing.T) {
	t.Parallel()
	a, b := balance.NewRoundRobin(), balance.NewRoundRobin()
	balance.SeedForTest(a, 1)
	balance.SeedForTest(b, 1)
	first := pick(t, a, nodes("abc")).Endpoint.Host
	pick(t, a, nodes("abc"))
	if got := pick(t, b, nodes("abc")).Endpoint.Host; got != first {
		t.Errorf("the second client starts at %s, want %s as the first did", got, first)
	}
}

func TestRandomFollowsTheWeights(t *testing.T) {
	t.Parallel()
	const rounds = 20_000
	strategy := balance.NewRandom()
	balance.SeedForTest(strategy, 5)
	picks := map[string]float64{}
	for range rounds {
		picks[pick(t, strategy, weighted(10, 20, 70)).Endpoint.Host]++
	}
	for host, share := range map[string]float64{"n0": .1, "n1": .2, "n2": .7} {
		if got := picks[host] / rounds; math.Abs(got-share) > .02 {
			t.Errorf("%s got %.3f of the picks, want %.1f", host, got, share)
		}
	}
}

func TestPlainStrategiesNeitherWaitNorProbe(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]balance.Strategy{"round-robin": balance.NewRoundRobin(), "random": balance.NewRandom()} {
		selection := pick(t, strategy, nodes("abc"))
		if selection.Waited || selection.Observations != nil || selection.Reservation.Made {
			t.Errorf("%s: got %+v, want nothing but an endpoint", name, selection)
		}
	}
}

// Whatever the candidates, every strategy picks one of them and leaves them as they were.
func TestEveryPickIsACandidate(t *testing.T) {
	t.Parallel()
	prober := &fakeProber{}
	leastConnections, err := balance.NewLeastConnections(balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter, Prober: prober})
	if err != nil {
		t.Fatal(err)
	}
	strategies := []balance.Strategy{leastConnections, balance.NewRoundRobin(), balance.NewRandom()}
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.StringMatching(`[a-z]{1,12}`).Draw(rt, "candidates")
		for _, strategy := range strategies {
			candidates := nodes(list)
			selection, err := strategy.Select(t.Context(), candidates)
			if err != nil {
				rt.Fatal(err)
			}
			if !strings.Contains(list, selection.Endpoint.Host) {
				rt.Fatalf("%T picked %s of %s", strategy, selection.Endpoint, list)
			}
			if names(candidates) != list {
				rt.Fatalf("%T changed the candidates %s to %s", strategy, list, names(candidates))
			}
		}
	})
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/discover"
)

var errSilent = errors.New("silent")

// seen is one observation in a table.
type seen struct {
	connections int
	weight      uint16
	err         error
}

func observe(all ...seen) []Observation {
	observations := make([]Observation, len(all))
	for i, s := range all {
		observations[i] = Observation{
			Endpoint: discover.Endpoint{Host: fmt.Sprintf("n%d", i), Port: 1, Weight: s.weight},
			Count:    Count{Connections: s.connections},
			Err:      s.err,
		}
	}
	return observations
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestLeastConnectionsPicksTheLeastLoaded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		seen []seen
		want []int // who has a chance, the same for each
	}{
		{"one", []seen{{connections: 7}}, []int{0}},
		{"the fewest", []seen{{connections: 3}, {connections: 1}, {connections: 2}}, []int{1}},
		{"two are equally good", []seen{{connections: 1}, {connections: 2}, {connections: 1}}, []int{0, 2}},
		{"all are equally good", []seen{{}, {}, {}}, []int{0, 1, 2}},
		{"a candidate that failed never wins", []seen{{connections: 0, err: errSilent}, {connections: 9}}, []int{1}},
		{"all failed", []seen{{err: errSilent}, {err: errSilent}}, []int{0, 1}},
		{"equal weights do not matter", []seen{{connections: 3, weight: 5}, {connections: 2, weight: 5}}, []int{1}},
		{"a bigger server takes more", []seen{{connections: 3, weight: 1}, {connections: 5, weight: 2}}, []int{1}},
		{"but not too much", []seen{{connections: 3, weight: 1}, {connections: 9, weight: 2}}, []int{0}},
		{"the client itself counts: 1/1 is less than 2/1.5", []seen{{connections: 0, weight: 2}, {connections: 1, weight: 3}}, []int{0}},
		{"equal after scaling", []seen{{connections: 1, weight: 1}, {connections: 3, weight: 2}}, []int{0, 1}},
		{"weight 0 is a tenth of weight 1", []seen{{connections: 0, weight: 0}, {connections: 8, weight: 1}}, []int{1}},
		{"weight 0 is no less than a tenth", []seen{{connections: 0, weight: 0}, {connections: 10, weight: 1}}, []int{0}},
		{"weight 0 equals a tenth", []seen{{connections: 0, weight: 0}, {connections: 9, weight: 1}}, []int{0, 1}},
		{"the largest counts do not overflow", []seen{{connections: math.MaxInt, weight: 65535}, {connections: math.MaxInt, weight: 65534}}, []int{0}},
		{"the largest counts are told apart", []seen{{connections: math.MaxInt}, {connections: math.MaxInt - 1}}, []int{1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var picked []int
			for i, chance := range Chances(observe(test.seen...)) {
				if chance > 0 {
					picked = append(picked, i)
				}
				if chance > 0 && math.Abs(chance-1/float64(len(test.want))) > 1e-9 {
					t.Errorf("candidate %d has a chance of %v, want the same for all of %v", i, chance, test.want)
				}
			}
			if !slices.Equal(picked, test.want) {
				t.Errorf("picked %v, want %v", picked, test.want)
			}
		})
	}
	if got := Chances(nil); got != nil {
		t.Errorf("chances %v of nobody, want none", got)
	}
}

func TestLeastConnectionsPicksAlwaysTheMinimum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		observations := observe(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) seen {
			s := seen{
				connections: rapid.IntRange(0, 1000).Draw(t, "connections"),
				weight:      rapid.Uint16Range(0, 300).Draw(t, "weight"),
			}
			if rapid.IntRange(0, 3).Draw(t, "failed") == 0 {
				s.err = errSilent
			}
			return s
		}), 1, 20).Draw(t, "observations")...)
		// Plain arithmetic in thousands of a tenth, which is exact enough for numbers of this size: no two loads that
		// differ are closer than 1/(3000*3000).
		load := func(o Observation) float64 {
			if o.Err != nil {
				return math.Inf(1)
			}
			weight := 10 * float64(o.Endpoint.Weight)
			if weight == 0 {
				weight = 1
			}
			return float64(o.Count.Connections+1) / weight
		}
		least := math.Inf(1)
		for _, o := range observations {
			least = min(least, load(o))
		}
		for i, chance := range Chances(observations) {
			own := load(observations[i])
			// Where nobody has answered all are drawn by weight.
			if want := math.IsInf(least, 1) || own <= least+1e-9; want != (chance > 0) {
				t.Fatalf("candidate %d with load %g has a chance of %v, the least is %g", i, own, chance, least)
			}
		}
	})
}

func TestPickRandomIsProportionalToTheWeights(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		weights []uint16
		shares  []float64
	}{
		{"one", []uint16{3}, []float64{1}},
		{"all zero", []uint16{0, 0, 0, 0}, []float64{.25, .25, .25, .25}},
		{"all equal", []uint16{9, 9}, []float64{.5, .5}},
		{"proportional", []uint16{1, 2, 7}, []float64{.1, .2, .7}},
		{"zero beside positive ones is a tenth of one", []uint16{0, 1, 0, 3}, []float64{.1 / 4.2, 1 / 4.2, .1 / 4.2, 3 / 4.2}},
		{"the largest", []uint16{65535, 65535, 65535}, []float64{1. / 3, 1. / 3, 1. / 3}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const rounds = 50_000
			random, picks := seeded(3), make([]int, len(test.weights))
			var candidates []discover.Endpoint
			for _, weight := range test.weights {
				candidates = append(candidates, discover.Endpoint{Weight: weight})
			}
			for range rounds {
				picks[pickRandom(candidates, random)]++
			}
			for i, share := range test.shares {
				bound := 6*math.Sqrt(rounds*share*(1-share)) + 1e-9
				if want := rounds * share; math.Abs(float64(picks[i])-want) > bound {
					t.Errorf("candidate %d was picked %d times of %d, want %.0f ± %.0f", i, picks[i], rounds, want, bound)
				}
			}
		})
	}
}

func TestPicksDoNotAllocate(t *testing.T) {
	random := seeded(1)
	candidates := make([]discover.Endpoint, 100)
	if n := testing.AllocsPerRun(100, func() { pickRandom(candidates, random) }); n != 0 {
		t.Errorf("pickRandom allocates %v times", n)
	}
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{3, 100} {
		random := seeded(1)
		candidates := make([]discover.Endpoint, n)
		for i := range n {
			candidates[i].Weight = uint16(i % 3)
		}
		b.Run(fmt.Sprintf("strategy=random/endpoints=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pickRandom(candidates, random)
			}
		})
	}
}

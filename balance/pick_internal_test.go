// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel-go/evenkeel/discover"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

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

func TestPickRandomDoesNotAllocate(t *testing.T) {
	random, candidates := seeded(1), make([]discover.Endpoint, 100)
	if n := testing.AllocsPerRun(100, func() { pickRandom(candidates, random) }); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{3, 100} {
		random, candidates := seeded(1), make([]discover.Endpoint, n)
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

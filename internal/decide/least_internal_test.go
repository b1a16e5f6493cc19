// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// weighted is a glass of a server with a count and the weight of its SRV record.
func weighted(count int, weight uint16) glass { return glass{count: count, share: Share(weight)} }

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestLeast(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		glasses []glass
		want    []int // each must be picked at some time, and nothing else ever
	}{
		{"one", glasses(1, 7), []int{0}},
		{"the fewest", glasses(1, 3, 1, 2), []int{1}},
		{"two are equally good", glasses(1, 1, 2, 1), []int{0, 2}},
		{"all are equally good", glasses(1, 0, 0, 0), []int{0, 1, 2}},
		{"equal weights do not matter", []glass{weighted(3, 5), weighted(2, 5)}, []int{1}},
		{"a bigger server takes more", []glass{weighted(3, 1), weighted(5, 2)}, []int{1}},
		{"but not too much", []glass{weighted(3, 1), weighted(9, 2)}, []int{0}},
		{"the client itself counts: 1/1 is less than 2/1.5", []glass{weighted(0, 2), weighted(1, 3)}, []int{0}},
		{"equal after scaling", []glass{weighted(1, 1), weighted(3, 2)}, []int{0, 1}},
		{"weight 0 is a tenth of weight 1", []glass{weighted(0, 0), weighted(8, 1)}, []int{1}},
		{"weight 0 is no less than a tenth", []glass{weighted(0, 0), weighted(10, 1)}, []int{0}},
		{"weight 0 equals a tenth", []glass{weighted(0, 0), weighted(9, 1)}, []int{0, 1}},
		{"the largest counts do not overflow", []glass{weighted(math.MaxInt, 65535), weighted(math.MaxInt, 65534)}, []int{0}},
		{"the largest counts are told apart", glasses(1, math.MaxInt, math.MaxInt-1), []int{1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			random := seeded(1)
			var picked []int
			for range 200 {
				if got := least(test.glasses, random); !slices.Contains(picked, got) {
					picked = append(picked, got)
				}
			}
			slices.Sort(picked)
			if !slices.Equal(picked, test.want) {
				t.Errorf("picked %v, want %v", picked, test.want)
			}
		})
	}
}

func TestLeastBreaksTiesEvenly(t *testing.T) {
	t.Parallel()
	const rounds, ties = 30_000, 3
	random, picks := seeded(7), make([]int, 4)
	for range rounds {
		picks[least(glasses(1, 1, 9, 1, 1), random)]++
	}
	for i, want := range []int{rounds / ties, 0, rounds / ties, rounds / ties} {
		if deviation := math.Abs(float64(picks[i] - want)); deviation > 6*math.Sqrt(rounds/ties) {
			t.Errorf("glass %d was picked %d times of %d, want about %d", i, picks[i], rounds, want)
		}
	}
}

func TestLeastIsAlwaysTheMinimum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) glass {
			return weighted(rapid.IntRange(0, 1000).Draw(t, "count"), rapid.Uint16Range(0, 300).Draw(t, "weight"))
		}), 1, 20).Draw(t, "glasses")
		got := least(all, seeded(rapid.Uint64().Draw(t, "seed")))
		// Plain arithmetic is exact enough for numbers of this size: no two loads that differ are closer than 1/(3000*3000).
		load := func(g glass) float64 { return float64(g.count+1) / float64(g.share) }
		for i, g := range all {
			if load(all[got]) > load(g)+1e-9 {
				t.Fatalf("picked %d with load %g, that of %d is %g", got, load(all[got]), i, load(g))
			}
		}
	})
}

func TestLeastDoesNotAllocate(t *testing.T) {
	random, all := seeded(1), make([]glass, 100)
	if n := testing.AllocsPerRun(100, func() { least(all, random) }); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
}

func BenchmarkLeast(b *testing.B) {
	for _, n := range []int{3, 100} {
		random, all := seeded(1), make([]glass, n)
		for i := range n {
			all[i] = weighted(i%10, uint16(i%3))
		}
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				least(all, random)
			}
		})
	}
}

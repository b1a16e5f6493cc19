// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func glasses(share uint64, counts ...int) []glass {
	all := make([]glass, len(counts))
	for i, count := range counts {
		all[i] = glass{index: i, share: share, count: count}
	}
	return all
}

func TestLevel(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		glasses []glass
		water   float64
		want    float64
	}{
		{"one", glasses(1, 5), 3, 8},
		{"equal ones share", glasses(1, 2, 2), 4, 4},
		{"the lowest first", glasses(1, 0, 10), 4, 4},
		{"until the next is reached", glasses(1, 0, 2, 10), 6, 4},
		{"all are covered", glasses(1, 0, 1, 2), 6, 3},
		{"little water", glasses(1, 3, 5), 1, 4},
		{"a wide glass rises slowly", []glass{{share: 1}, {share: 3}}, 8, 2},
		{"a count beyond all reason stays above", glasses(1, math.MaxInt, 0), 4, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := level(tt.glasses, tt.water); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("level %v, want %v", got, tt.want)
			}
		})
	}
}

func drawGlasses(t *rapid.T) []glass {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) glass {
		return glass{
			share: rapid.Uint64Range(1, 655350).Draw(t, "share"),
			count: rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(0, 1e6), rapid.Just(math.MaxInt)).Draw(t, "count"),
		}
	}), 1, 30).Draw(t, "glasses")
}

// The rooms below the level add up to the water, so the chances of the candidates add up to one.
func TestRoomsHoldTheWater(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := drawGlasses(t)
		if slices.ContainsFunc(all, func(g glass) bool { return g.count == math.MaxInt }) {
			t.Skip("rounding hides the water among such numbers; see the next test")
		}
		water := rapid.Float64Range(1, 1e6).Draw(t, "water")
		l, sum := level(all, water), 0.0
		for _, g := range all {
			sum += g.room(l) / water
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Fatalf("the chances add up to %v", sum)
		}
	})
}

// With a most, the rooms hold the water too, and none takes more.
func TestRoomsHoldTheWaterWithinAMost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := drawGlasses(t)
		if slices.ContainsFunc(all, func(g glass) bool { return g.count == math.MaxInt }) {
			t.Skip("rounding hides the water among such numbers")
		}
		for i := range all {
			all[i].index = i
		}
		before := slices.Clone(all)
		water, shares := rapid.Float64Range(1, 1e6).Draw(t, "water"), 0.0
		for _, g := range all {
			shares += float64(g.share)
		}
		most := water / shares * rapid.Float64Range(1.1, 3).Draw(t, "times its part")
		l, sum := levelWithin(all, water, most), 0.0
		for _, g := range all {
			sum += g.roomWithin(l, most) / water
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Fatalf("the chances add up to %v", sum)
		}
		if i := pourWithin(all, l, most, rand.New(rand.NewPCG(1, 2))); all[i].room(l) <= 0 {
			t.Fatalf("drew %+v below %v", all[i], l)
		}
		if slices.SortFunc(all, func(a, b glass) int { return a.index - b.index }); !slices.Equal(all, before) {
			t.Fatalf("the glasses were %v and are %v", before, all)
		}
	})
}

// What is drawn has room, whatever the counts.
func TestPourDrawsWhatHasRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := drawGlasses(t)
		l := level(all, rapid.Float64Range(1, 1e6).Draw(t, "water"))
		if math.IsNaN(l) || math.IsInf(l, 0) {
			t.Fatalf("the level is %v", l)
		}
		i := pour(all, l, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		room := slices.ContainsFunc(all, func(g glass) bool { return g.room(l) > 0 })
		if room && all[i].room(l) <= 0 {
			t.Fatalf("drew %+v, which has no room below %v", all[i], l)
		}
		if bound := all[i].bound(l); bound < 1 || bound > maxBound {
			t.Fatalf("a bound of %d", bound)
		}
	})
}

func TestPourDrawsInProportion(t *testing.T) {
	t.Parallel()
	const rounds = 40_000
	all, random := glasses(1, 0, 2, 3, 9), rand.New(rand.NewPCG(1, 2))
	l := level(all, 7) // 4: rooms of 4, 2, 1 and none
	drawn := make([]int, len(all))
	for range rounds {
		drawn[pour(all, l, random)]++
	}
	for i, part := range []float64{4. / 7, 2. / 7, 1. / 7, 0} {
		if off := math.Abs(float64(drawn[i])/rounds - part); off > .015 {
			t.Errorf("glass %d was drawn %d times of %d, want a part of %.3f", i, drawn[i], rounds, part)
		}
	}
}

func TestSampleHasEachWithTheSameChanceAndNoneTwice(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]int{"all": None, "without the first": 0, "without one": 4, "without the last": 11} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rounds, k, n = 12_000, 5, 12
			random, seen := rand.New(rand.NewPCG(3, 4)), make([]int, n)
			for range rounds {
				list := sample([]int{-7}, k, n, without, random)
				if len(list) != k+1 || list[0] != -7 {
					t.Fatalf("got %v", list)
				}
				slices.Sort(list)
				if len(slices.Compact(list)) != k+1 {
					t.Fatalf("one is there twice: %v", list)
				}
				for _, i := range list[1:] {
					seen[i]++
				}
			}
			left := n
			if without != None {
				left--
			}
			want := float64(rounds*k) / float64(left)
			for i, times := range seen {
				if i == without {
					if times != 0 {
						t.Errorf("%d was to be left out", i)
					}
				} else if math.Abs(float64(times)-want) > 6*math.Sqrt(want) {
					t.Errorf("%d was drawn %d times, want about %.0f", i, times, want)
				}
			}
		})
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/internal/decide"
)

func TestShares(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		weights    []uint16
		capacities []int
		want       []uint64
	}{
		"nothing is said":                  {[]uint16{0, 0}, []int{0, 0}, []uint64{10, 10}},
		"equal weights say nothing":        {[]uint16{33, 33, 33}, []int{0, 0, 2}, []uint64{10, 10, 20}},
		"weights":                          {[]uint16{1, 3, 0}, []int{0, 0, 0}, []uint64{10, 30, 1}},
		"capacities":                       {[]uint16{0, 0}, []int{1, 2}, []uint64{10, 20}},
		"capacities in place of weights":   {[]uint16{2, 1}, []int{1, 2}, []uint64{10, 20}},
		"one has told none":                {[]uint16{0, 0, 0}, []int{1, 2, 0}, []uint64{10, 20, 10}},
		"one has told none but a weight":   {[]uint16{1, 2, 3}, []int{1, 2, 0}, []uint64{10, 20, 30}},
		"one tells very much":              {[]uint16{0, 0, 0}, []int{1, 1, math.MaxInt}, []uint64{10, 10, 160}},
		"one tells much, and has a weight": {[]uint16{1, 1, 50}, []int{0, 0, 1000}, []uint64{10, 10, 500}},
		"one tells less than its weight":   {[]uint16{1, 1, 50}, []int{0, 0, 20}, []uint64{10, 10, 200}},
		"many take much more":              {[]uint16{0, 0, 0}, []int{1, 100, 100}, []uint64{10, 1000, 1000}},
		"weights alone are not bounded":    {[]uint16{1, 1, 1000}, []int{0, 0, 0}, []uint64{10, 10, 10000}},
		"nobody":                           {nil, nil, []uint64{}},
	} {
		if got := decide.Shares(tt.weights, first(len(tt.weights)), tt.capacities); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

// Which others are asked does not change what a server counts as, while no capacity is out of proportion: clients that ask
// different ones agree.
func TestSharesAreOfEachServerByItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(t, "servers")
		weights := make([]uint16, n)
		all := rapid.SliceOfN(rapid.IntRange(0, 16), n, n).Draw(t, "capacities")
		whole, some := decide.Shares(weights, first(n), all), rapid.IntRange(1, n).Draw(t, "asked")
		if part := decide.Shares(weights, first(some), all[:some]); !slices.Equal(part, whole[:some]) {
			t.Fatalf("%v of all, %v of some", whole, part)
		}
	})
}

// first are the first n indexes.
func first(n int) []int {
	indexes := make([]int, n)
	for i := range indexes {
		indexes[i] = i
	}
	return indexes
}

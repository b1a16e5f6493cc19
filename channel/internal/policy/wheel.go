// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"math"
	"math/bits"
)

// golden is 2^64 divided by the golden ratio. Its multiples modulo 2^64 fall more evenly than those of any other step:
// each stretch of the wheel is hit in proportion to its length, at distances that take no more than three values.
const golden = 0x9E3779B97F4A7C15

// wheel divides the numbers of 64 bits into a stretch for each weight, as long as the weight's share. A guide of about
// as many entries as stretches makes finding one take constant time on average. It is immutable.
type wheel struct {
	lasts []uint64 // the last number of each stretch
	guide []uint32 // the stretch in which each of len(guide) equal parts begins
	shift int      // from a number to its part
}

// newWheel makes a wheel of at least one weight. A weight of 0 counts as 1.
func newWheel(weights []uint32) wheel {
	total := uint64(0)
	for _, w := range weights {
		total += uint64(max(1, w))
	}
	w := wheel{lasts: make([]uint64, len(weights))}
	sum := uint64(0)
	for i, weight := range weights[:len(weights)-1] {
		sum += uint64(max(1, weight))
		begin, _ := bits.Div64(sum, 0, total)
		w.lasts[i] = begin - 1
	}
	w.lasts[len(weights)-1] = math.MaxUint64
	size := bits.Len(uint(len(weights)))
	w.shift = 64 - size
	w.guide = make([]uint32, 1<<size)
	at := uint32(0)
	for part := range w.guide {
		for w.lasts[at] < uint64(part)<<w.shift {
			at++
		}
		w.guide[part] = at
	}
	return w
}

// find returns the stretch of a number.
func (w *wheel) find(x uint64) int {
	at := w.guide[x>>w.shift]
	for x > w.lasts[at] {
		at++
	}
	return int(at)
}

// even says that all weights are the same.
func even(weights []uint32) bool {
	for _, w := range weights {
		if max(1, w) != max(1, weights[0]) {
			return false
		}
	}
	return true
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// glass is one candidate when water is poured: how much room it has, and what stands in it.
type glass struct {
	index int
	share uint64 // its part of the clients, in proportion to others; more than 0
	count int
	told  int // the capacity that it told; 0 where it told none
}

// level returns how high w units of water stand: the L for which the sum of max(0, L*share - count) over all glasses is w.
// There must be a glass; w is more than 0.
func level(glasses []glass, w float64) float64 {
	// Each pass leaves out glasses that stand above the level, which lowers it; a glass left out stays above.
	top := math.Inf(1)
	for {
		sum, shares := w, 0.0
		for _, g := range glasses {
			if float64(g.count) < top*float64(g.share) {
				sum += float64(g.count)
				shares += float64(g.share)
			}
		}
		next := sum / shares
		if shares == 0 || next >= top {
			return top
		}
		top = next
	}
}

// levelWithin is level where no glass takes more than most for each part of its share. The glasses that would are at the end
// then. most must be enough for w.
func levelWithin(glasses []glass, w, most float64) float64 {
	for {
		l, left, full := level(glasses, w), 0, 0.0
		for i, g := range glasses {
			if bounded := most * float64(g.share); g.room(l) > bounded {
				full += bounded
				continue
			}
			glasses[left], glasses[i] = glasses[i], glasses[left]
			left++
		}
		// What those that are full leave raises the level of the others, so a full one stays full.
		if full == 0 || left == 0 {
			return l
		}
		glasses, w = glasses[:left], w-full
	}
}

// room is what a glass takes up to the level.
func (g glass) room(level float64) float64 {
	return max(0, level*float64(g.share)-float64(g.count))
}

// roomWithin is room where no glass takes more than most for each part of its share.
func (g glass) roomWithin(level, most float64) float64 {
	return min(g.room(level), most*float64(g.share))
}

// bound is the count below which one more stays below the level, rounded up.
func (g glass) bound(level float64) int {
	return max(1, int(math.Ceil(min(level*float64(g.share)-roundingSlack, maxBound))))
}

// roundingSlack keeps a level that is a whole number, but for how floating point adds up, from being rounded up.
const roundingSlack = 1e-6

// pour draws a glass in proportion to its room below the level. Where none has room, as with counts beyond all reason, it
// is a lowest one.
func pour(glasses []glass, level float64, random *rand.Rand) int {
	return pourWithin(glasses, level, math.Inf(1), random)
}

// pourWithin is pour where no glass takes more than most for each part of its share.
func pourWithin(glasses []glass, level, most float64, random *rand.Rand) int {
	total := 0.0
	for _, g := range glasses {
		total += g.roomWithin(level, most)
	}
	if !(total > 0) {
		return least(glasses, random)
	}
	drawn, last := random.Float64()*total, 0
	for i, g := range glasses {
		room := g.roomWithin(level, most)
		if room == 0 {
			continue
		}
		if drawn -= room; drawn < 0 {
			return i
		}
		last = i // rounding may leave a rest after the last one with room
	}
	return last
}

// least returns the glass with the lowest (count+1)/share, ties broken at random. There must be one.
func least(glasses []glass, random *rand.Rand) int {
	best, ties := 0, uint64(1)
	for i := 1; i < len(glasses); i++ {
		switch order := compare(glasses[i], glasses[best]); {
		case order < 0:
			best, ties = i, 1
		case order == 0:
			// Each of the ties so far stays with the same chance.
			if ties++; random.Uint64N(ties) == 0 {
				best = i
			}
		}
	}
	return best
}

// compare compares what the loads would be with one more client, exactly: the fractions are brought to one denominator in
// 128 bits.
func compare(a, b glass) int {
	aHigh, aLow := bits.Mul64(uint64(a.count)+1, b.share)
	bHigh, bLow := bits.Mul64(uint64(b.count)+1, a.share)
	switch {
	case aHigh < bHigh, aHigh == bHigh && aLow < bLow:
		return -1
	case aHigh == bHigh && aLow == bLow:
		return 0
	default:
		return 1
	}
}

// anybody draws one of the glasses in proportion to the shares. There must be one.
func anybody(glasses []glass, random *rand.Rand) int {
	total := uint64(0)
	for _, g := range glasses {
		total += g.share
	}
	drawn, i := random.Uint64N(total), 0
	for drawn >= glasses[i].share {
		drawn -= glasses[i].share
		i++
	}
	return i
}

// Draw returns the index of a weight, drawn in proportion to the weights, of which there must be one. Weight 0 beside
// positive ones counts as a tenth of weight 1.
func Draw(weights []uint16, random *rand.Rand) int {
	total := uint64(0)
	for _, weight := range weights {
		total += Share(weight)
	}
	drawn, i := random.Uint64N(total), 0
	for drawn >= Share(weights[i]) {
		drawn -= Share(weights[i])
		i++
	}
	return i
}

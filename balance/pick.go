// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"math/bits"
	"math/rand/v2"

	"github.com/evenkeel-go/evenkeel/discover"
)

// none is the index of no candidate.
const none = -1

// pickLeast returns the index of the observation with the lowest (connections+1)/weight, ties broken at random, or none
// when no observation has a count. It allocates nothing.
func pickLeast(observations []Observation, random *rand.Rand) int {
	best, ties := none, uint64(0)
	for i := range observations {
		if observations[i].Err != nil {
			continue
		}
		order := -1
		if best != none {
			order = compareLoad(&observations[i], &observations[best])
		}
		switch {
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

// compareLoad compares what the load of a and b would be with one more client, (connections+1)/weight, exactly: the
// fractions are brought to one denominator in 128 bits.
func compareLoad(a, b *Observation) int {
	aHigh, aLow := bits.Mul64(uint64(a.Count.Connections)+1, capacity(b.Endpoint))
	bHigh, bLow := bits.Mul64(uint64(b.Count.Connections)+1, capacity(a.Endpoint))
	switch {
	case aHigh < bHigh, aHigh == bHigh && aLow < bLow:
		return -1
	case aHigh == bHigh && aLow == bLow:
		return 0
	default:
		return 1
	}
}

// pickRandom returns the index of a candidate, drawn in proportion to the weights. It needs at least one candidate and
// allocates nothing.
func pickRandom(candidates []discover.Endpoint, random *rand.Rand) int {
	total := uint64(0)
	for i := range candidates {
		total += capacity(candidates[i])
	}
	drawn, i := random.Uint64N(total), 0
	for share := capacity(candidates[i]); drawn >= share; share = capacity(candidates[i]) {
		drawn -= share
		i++
	}
	return i // at the latest the last one: drawn was less than the sum of all
}

// capacity is the weight of an endpoint in tenths, so that weight 0 can be a tenth of weight 1. Where all weights are
// equal, zero or not, all capacities are too.
func capacity(endpoint discover.Endpoint) uint64 {
	return max(1, 10*uint64(endpoint.Weight))
}

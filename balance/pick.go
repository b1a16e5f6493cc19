// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"math/rand/v2"

	"github.com/evenkeel-go/evenkeel/discover"
)

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

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"math/rand/v2"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/decide"
)

// pickRandom returns the index of a candidate, drawn in proportion to the weights. It needs at least one candidate and
// allocates nothing.
func pickRandom(candidates []discover.Endpoint, random *rand.Rand) int {
	total := uint64(0)
	for i := range candidates {
		total += decide.Share(candidates[i].Weight)
	}
	drawn, i := random.Uint64N(total), 0
	for share := decide.Share(candidates[i].Weight); drawn >= share; share = decide.Share(candidates[i].Weight) {
		drawn -= share
		i++
	}
	return i // at the latest the last one: drawn was less than the sum of all
}

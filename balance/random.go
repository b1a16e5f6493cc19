// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"math/rand/v2"

	"github.com/evenkeel-go/evenkeel/discover"
)

// NewRandom returns a strategy that picks at random in proportion to the weights, evenly when they are equal or all
// zero. Weight 0 beside positive ones counts as a tenth of weight 1 (RFC 2782 gives it "a very small chance").
//
// It never waits and never probes. It is used by one goroutine at a time.
func NewRandom() Strategy { return &random{rand: newRand()} }

type random struct {
	rand *rand.Rand
}

// Select implements Strategy.
func (r *random) Select(_ context.Context, candidates []discover.Endpoint) (Selection, error) {
	if len(candidates) == 0 {
		return Selection{}, ErrNoCandidates
	}
	return Selection{Endpoint: candidates[pickRandom(candidates, r.rand)]}, nil
}

// newRand returns a source of its own for one strategy: strategies are not shared, so it needs no lock.
func newRand() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"math/rand/v2"

	"github.com/evenkeel-go/evenkeel/discover"
)

// NewRoundRobin returns a strategy that takes turns: it starts at a random candidate and moves by one with every
// selection. Weights do not matter.
//
// It goes on from the endpoint that it picked last, not from a number: when the list has changed since, no candidate is
// skipped or picked twice for that. When that endpoint is gone, the one that took its place in the list is next.
//
// It never waits and never probes. It is used by one goroutine at a time.
func NewRoundRobin() Strategy { return &roundRobin{rand: newRand()} }

type roundRobin struct {
	rand  *rand.Rand
	last  string // Addr of the last pick; empty before the first
	index int    // where it stood among the candidates
}

// Select implements Strategy.
func (rr *roundRobin) Select(_ context.Context, candidates []discover.Endpoint) (Selection, error) {
	if len(candidates) == 0 {
		return Selection{}, ErrNoCandidates
	}
	if rr.last == "" {
		rr.index = rr.rand.IntN(len(candidates))
	} else {
		rr.index = turn(candidates, rr.last, rr.index)
	}
	rr.last = candidates[rr.index].Addr()
	return Selection{Endpoint: candidates[rr.index]}, nil
}

// turn returns the index of the candidate after the one called last, which stood at index when it was picked.
func turn(candidates []discover.Endpoint, last string, index int) int {
	for i, candidate := range candidates {
		if candidate.Addr() == last {
			return (i + 1) % len(candidates)
		}
	}
	return index % len(candidates)
}

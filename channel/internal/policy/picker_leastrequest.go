// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"math"
	"math/rand/v2"

	"google.golang.org/grpc/balancer"
)

// leastRequest takes the less loaded of two or more links chosen at random, as gRFC A48 has it.
type leastRequest struct {
	links   []*link
	choices int
}

func (p *leastRequest) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	n := len(p.links)
	if n == 1 {
		return p.take(p.links[0], 0)
	}
	r := rand.Uint64()
	i, j := below(r>>32, n), below(r&math.MaxUint32, n-1)
	if j >= i {
		j++
	}
	best, other := p.links[i], p.links[j]
	if best.dead.Load() || other.load.value() < best.load.value() && !other.dead.Load() {
		best = other
	}
	for range p.choices - defaultChoices {
		other := p.links[below(rand.Uint64()>>32, n)]
		if other.load.value() < best.load.value() && !other.dead.Load() {
			best = other
		}
	}
	return p.take(best, j)
}

func (p *leastRequest) take(l *link, i int) (balancer.PickResult, error) {
	if l.dead.Load() {
		if l = nextLiving(p.links, i); l == nil {
			return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
		}
	}
	l.load.begin()
	return balancer.PickResult{SubConn: l.sc, Done: l.load.done}, nil
}

// weightedLeastRequest draws a heavy link more often and takes the one with the least load for its weight; of equal ones
// the first drawn. So endpoints without load share by weight, and so do endpoints under much of it. To compare
// (load+1)/weight instead would give a light endpoint next to nothing as long as there are few calls at a time.
type weightedLeastRequest struct {
	links   []*link
	weights []uint32
	wheel   wheel
	choices int
}

func (p *weightedLeastRequest) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	best := p.wheel.find(rand.Uint64())
	for range p.choices - 1 {
		other := p.wheel.find(rand.Uint64())
		if other != best && p.lighter(other, best) {
			best = other
		}
	}
	l := p.links[best]
	if l.dead.Load() {
		if l = nextLiving(p.links, best); l == nil {
			return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
		}
	}
	l.load.begin()
	return balancer.PickResult{SubConn: l.sc, Done: l.load.done}, nil
}

// lighter says whether a is to be taken rather than b.
func (p *weightedLeastRequest) lighter(a, b int) bool {
	if p.links[a].dead.Load() || p.links[b].dead.Load() {
		return p.links[b].dead.Load() && !p.links[a].dead.Load()
	}
	loadA, loadB := p.links[a].load.value(), p.links[b].load.value()
	return loadA*int64(max(1, p.weights[b])) < loadB*int64(max(1, p.weights[a]))
}

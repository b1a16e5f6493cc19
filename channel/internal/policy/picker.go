// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"math/rand/v2"
	"sync/atomic"

	"google.golang.org/grpc/balancer"
)

// link is the connection of an endpoint for as long as it is ready and in the set. Pickers share it, so that one that
// grpc-go still holds passes over it from the moment of its death.
type link struct {
	sc   balancer.SubConn
	load *load
	dead atomic.Bool // never taken back
}

// errorPicker is what calls get while no endpoint is ready.
type errorPicker struct{ err error }

func (p errorPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{}, p.err
}

// cursor is where round robin stands. It belongs to the policy and not to a picker: a new picker goes on where the old
// one was.
type cursor struct {
	_ [64]byte // every call writes it: nothing else that is read may share its cache line
	n atomic.Uint32
	_ [64]byte
}

// newPicker makes the picker of a policy from at least one ready link. The picker keeps both slices.
func (p *policy) newPicker(links []*link, weights []uint32) balancer.Picker {
	switch {
	case p.name == LeastRequest && even(weights):
		return &leastRequest{links: links, choices: p.config.choices}
	case p.name == LeastRequest:
		return &weightedLeastRequest{links: links, weights: weights, wheel: newWheel(weights), choices: p.config.choices}
	case p.name == Random && even(weights):
		return &random{links: links}
	case p.name == Random:
		return &weightedRandom{links: links, wheel: newWheel(weights)}
	case even(weights):
		return &roundRobin{links: links, cursor: p.cursor}
	default:
		return &weightedRoundRobin{links: links, wheel: newWheel(weights), cursor: p.cursor}
	}
}

// nextLiving returns the first link after i that is not dead, or nil. It is called when i is: a rare case.
func nextLiving(links []*link, i int) *link {
	for range links {
		if i++; i == len(links) {
			i = 0
		}
		if l := links[i]; !l.dead.Load() {
			return l
		}
	}
	return nil
}

// pickLiving takes link i or, if it has died, the next one. With none left a new picker is on its way.
func pickLiving(links []*link, i int) (balancer.PickResult, error) {
	l := links[i]
	if l.dead.Load() {
		if l = nextLiving(links, i); l == nil {
			return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
		}
	}
	return balancer.PickResult{SubConn: l.sc}, nil
}

// roundRobin takes the links in turn.
type roundRobin struct {
	links  []*link
	cursor *cursor
}

func (p *roundRobin) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return pickLiving(p.links, int(p.cursor.n.Add(1)%uint32(len(p.links)))) //nolint:gosec // a process has fewer connections
}

// weightedRoundRobin takes each link at distances as even as they can be, as often as its weight says.
type weightedRoundRobin struct {
	links  []*link
	wheel  wheel
	cursor *cursor
}

func (p *weightedRoundRobin) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return pickLiving(p.links, p.wheel.find(uint64(p.cursor.n.Add(1))*golden))
}

// random takes any link.
type random struct{ links []*link }

func (p *random) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return pickLiving(p.links, below(rand.Uint64()>>32, len(p.links)))
}

// weightedRandom takes any link, a heavy one more often.
type weightedRandom struct {
	links []*link
	wheel wheel
}

func (p *weightedRandom) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return pickLiving(p.links, p.wheel.find(rand.Uint64()))
}

// below makes a number below n of a random one of 32 bits.
func below(random uint64, n int) int { return int(random * uint64(n) >> 32) } //nolint:gosec // n is not negative

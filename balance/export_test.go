// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import "math/rand/v2"

// SeedForTest makes the random choices of a strategy of this package repeatable.
func SeedForTest(strategy Strategy, seed uint64) {
	source := rand.New(rand.NewPCG(seed, seed))
	switch s := strategy.(type) {
	case *leastConnections:
		s.rand = source
	case *roundRobin:
		s.rand = source
	case *random:
		s.rand = source
	default:
		panic("not a strategy of this package")
	}
}

// PooledForTest returns how many servers and connections the prober holds.
func PooledForTest(p *HTTPProber) (servers, conns int) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	for _, t := range p.pool.targets {
		conns += len(t.conns)
	}
	return len(p.pool.targets), conns
}

// SweepForTest does what the pool does now and then, as if its connections had been idle for as long as they are kept.
func SweepForTest(p *HTTPProber) {
	p.pool.mu.Lock()
	for _, t := range p.pool.targets {
		for _, conn := range t.conns {
			conn.lastUsed = conn.lastUsed.Add(-idleTimeout)
		}
	}
	p.pool.mu.Unlock()
	p.pool.sweep()
}

// Limits of the package that tests refer to.
const (
	MaxTargetsForTest   = maxTargets
	MaxPenaltiesForTest = maxPenalties
	MaxIdleHTTP1ForTest = maxIdleHTTP1
	SilenceAfterForTest = silenceAfter
	MaxAskedForTest     = maxAsked
)

// EntriesForTest returns how many endpoints have a penalty or had one not long ago.
func (p *Penalties) EntriesForTest() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries)
}

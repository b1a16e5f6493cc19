// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"math/rand/v2"
	"net"
	"runtime"

	"github.com/evenkeel-go/evenkeel/discover"
)

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

// DialForTest makes a prober that is not in use yet dial through dial.
func DialForTest(p *HTTPProber, dial func(context.Context, discover.Endpoint) (net.Conn, error)) {
	p.dial = dial
}

// Limits of the package that tests refer to.
const (
	MaxTargetsForTest   = maxTargets
	MaxPenaltiesForTest = maxPenalties
	MaxIdleForTest      = maxIdle
	MaxConnsForTest     = maxConns
	MaxTurnForTest      = maxTurn
	MaxAskedForTest     = maxAsked
)

// EntriesForTest returns how many endpoints have a penalty or had one not long ago.
func (p *Penalties) EntriesForTest() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries)
}

// AskTheDeadForTest asks the endpoint on a connection that the server has ended before the request. Without TLS there is no
// word of why.
func AskTheDeadForTest(ctx context.Context, p *HTTPProber, endpoint discover.Endpoint) error {
	conn, err := p.connect(ctx, endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for conn.Err() == nil && ctx.Err() == nil {
		runtime.Gosched()
	}
	response, err := conn.RoundTrip(p.request(ctx, &question{endpoint: endpoint}))
	if err != nil {
		return exchangeError(ctx, conn.cause(err))
	}
	return response.Body.Close()
}

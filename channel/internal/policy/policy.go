// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
)

var (
	errNoEndpoints = errors.New("resolver gave no endpoints")
	errWrongConfig = errors.New("config was not read by ParseConfig")
)

// policy is one of the three policies at work for one channel.
//
// Lock order: the mutex of a pick_first child, then mu, then those of grpc-go's channel. So no child is called with mu
// held; the work lane does that.
type policy struct {
	name   string
	cc     balancer.ClientConn
	opts   balancer.BuildOptions
	cursor *cursor
	work   lane // every call of a child, so that they come one at a time
	events lane // the hooks
	probes sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	config     *config
	hooks      *Hooks
	attributes *attributes.Attributes // of the resolver's latest state, for the children
	children   map[string]*child
	order      []*child // the same, in the order of rotation
	draining   map[string]*child
	levels     []*level // best priority first
	conns      map[*childConn]struct{}
	lookupErr  error // why the latest lookup failed; nil when it did not
	shown      view
	batch      *time.Timer // to the next publication of joiners; nil when there is none

	noHealthTold bool
}

// Build starts a policy for one channel.
func (b builder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	p := &policy{
		name:     b.name,
		cc:       cc,
		opts:     opts,
		cursor:   &cursor{},
		config:   defaultConfig(),
		children: make(map[string]*child),
		draining: make(map[string]*child),
		conns:    make(map[*childConn]struct{}),
		shown:    view{state: connectivity.Idle},
	}
	p.cursor.n.Store(rand.Uint32()) // clients that start together do not walk together
	return p
}

// UpdateClientConnState makes the set of endpoints what the resolver says it is. An empty set is not believed.
func (p *policy) UpdateClientConnState(state balancer.ClientConnState) error {
	parsed, ok := state.BalancerConfig.(*config)
	if state.BalancerConfig != nil && !ok {
		return fmt.Errorf("%s: %w: %w", p.name, errWrongConfig, balancer.ErrBadResolverState)
	}
	if !ok {
		parsed = defaultConfig()
	}
	set := newSet(state.ResolverState)
	if len(set) == 0 {
		p.ResolverError(errNoEndpoints)
		return balancer.ErrBadResolverState
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	stale := *parsed != *p.config || p.lookupErr != nil && p.shown.state != connectivity.Ready
	p.config, p.lookupErr = parsed, nil
	if p.hooks = hooksOf(state.ResolverState); p.hooks != nil {
		p.hooks.take(p)
	}
	p.attributes = pickfirst.EnableHealthListener(state.ResolverState).Attributes
	stale = p.reconcileLocked(set) || stale
	p.settleLocked(stale)
	return nil
}

// ResolverError is ignored while there is a set, except that calls that fail anyway tell of it.
func (p *policy) ResolverError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.lookupErr = err
	p.settleLocked(p.shown.state == connectivity.TransientFailure)
}

// UpdateSubConnState is not called: every subchannel has a listener.
func (p *policy) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// ExitIdle has nothing to do: what is idle is dialled without being asked.
func (p *policy) ExitIdle() {}

// Close gives up every connection; grpc-go ends them, with their calls when the channel is closed. When it returns,
// nothing is running and no hook is called any more.
func (p *policy) Close() {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.levels {
		l.stopTimer()
	}
	for _, c := range p.draining {
		c.stopDrain()
	}
	for _, c := range p.order {
		c.stopPause()
	}
	if p.batch != nil {
		p.batch.Stop()
	}
	p.mu.Unlock()
	p.work.close()
	p.mu.Lock()
	conns := make([]*childConn, 0, len(p.conns))
	for conn := range p.conns {
		conns = append(conns, conn)
	}
	p.mu.Unlock()
	for _, conn := range conns {
		conn.close()
	}
	p.probes.Wait() // their connections are closed, which ends them
	p.events.close()
}

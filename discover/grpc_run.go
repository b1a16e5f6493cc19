// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// A failed build is repeated after firstRebuild, doubling to lastRebuild, or at a hint.
const (
	firstRebuild = time.Second
	lastRebuild  = 30 * time.Second
)

var (
	errSilentReport  = errors.New("the resolver reported an error and did not say which")
	errNoResolver    = errors.New("the builder returned no resolver")
	errNoConfig      = errors.New("service configs are not read here")
	errEmpty         = errors.New("the set is empty")
	errConfigInstead = errors.New("the resolver gave a service config instead, by which policies inside grpc-go are to find them")
)

// start starts run once and returns where the source stands.
func (g *GRPCSource) start() report {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.started && !g.now.closed {
		g.started = true
		go g.run()
	}
	return g.now
}

// look returns where the source stands.
func (g *GRPCSource) look() report {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}

// run owns the resolver: it alone calls its methods.
func (g *GRPCSource) run() {
	defer close(g.done)
	built := g.build()
	if built == nil {
		return
	}
	for {
		select {
		case <-g.hints:
			if err := guard("resolver", "ResolveNow", func() { built.ResolveNow(resolver.ResolveNowOptions{}) }); err != nil {
				g.fail(ErrServerFailed, err)
			}
		case <-g.quit:
			err := guard("resolver", "Close", built.Close)
			g.mu.Lock()
			defer g.mu.Unlock()
			if err != nil {
				g.stopErr = fmt.Errorf("close the resolver of %s: %w", g.name, err)
			}
			return
		}
	}
}

// build builds the resolver, again and again until it succeeds. It returns nil when Close came first.
func (g *GRPCSource) build() resolver.Resolver {
	for wait := firstRebuild; ; wait = min(2*wait, lastRebuild) {
		built, err := g.buildOnce()
		if err == nil {
			return built
		}
		g.fail(ErrServerFailed, err)
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-g.hints:
			pause.Stop()
		case <-g.quit:
			pause.Stop()
			return nil
		}
		g.forget()
	}
}

func (g *GRPCSource) buildOnce() (built resolver.Resolver, err error) {
	conn := &clientConn{source: g}
	panicked := guard("resolver", "Build", func() { built, err = g.builder.Build(g.target, conn, g.options) })
	switch {
	case panicked != nil:
		err = panicked
	case err == nil && built == nil:
		err = errNoResolver
	}
	if err != nil {
		conn.retire()
		return nil, err
	}
	return built, nil
}

// guard calls a method of somebody else's and turns its panic into an error.
func guard(owner, method string, call func()) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicError(owner, method, value)
		}
	}()
	call()
	return nil
}

func panicError(owner, method string, value any) error {
	return fmt.Errorf("panic in the %s's %s: %v", owner, method, value)
}

// succeed makes a set the one that is known.
func (g *GRPCSource) succeed(from *clientConn, endpoints []Endpoint, partial error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if from.retired {
		return
	}
	known := &g.now.known
	if known.failure != nil || !slices.EqualFunc(known.endpoints, endpoints, sameEndpoint) || !sameText(known.partial, partial) {
		g.now.version++
	}
	*known = answer{endpoints: endpoints, partial: partial, at: time.Now()}
	g.heardLocked()
}

// fail notes that a set was not replaced, and why.
func (g *GRPCSource) fail(kind, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failLocked(kind, cause)
}

func (g *GRPCSource) failLocked(kind, cause error) {
	failure := &SourceError{Source: g.name, Kind: kind, Err: cause}
	if !sameText(g.now.known.failure, failure) {
		g.now.version++
	}
	g.now.known.failure = failure
	g.heardLocked()
}

// forget drops the failure of a build before the next one, so that a Resolve waits for what that leads to.
func (g *GRPCSource) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.now.known.endpoints) == 0 {
		g.now.known.failure = nil
	}
}

func (g *GRPCSource) heardLocked() {
	g.now.heard++
	g.announceLocked()
}

func (g *GRPCSource) announceLocked() {
	close(g.now.news)
	g.now.news = make(chan struct{})
}

// sameEndpoint says whether two endpoints are equal in every respect.
func sameEndpoint(a, b Endpoint) bool {
	return a.Host == b.Host && a.Port == b.Port && slices.Equal(a.Addrs, b.Addrs) &&
		a.Priority == b.Priority && a.Weight == b.Weight && a.Absolute == b.Absolute && a.ServerName == b.ServerName
}

// sameText compares errors that are made anew for every set.
func sameText(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}

// clientConn is what the resolver reports to. Its methods return at once and are safe for concurrent use.
type clientConn struct {
	// The interface may grow; what it has today is implemented below.
	resolver.ClientConn

	source  *GRPCSource
	retired bool // guarded by source.mu: its resolver was never built
}

// retire lets nothing in any more: what a resolver still says whose Build has failed would replace what its successor says.
func (c *clientConn) retire() {
	c.source.mu.Lock()
	defer c.source.mu.Unlock()
	c.retired = true
}

// fail notes what the resolver says of a failure.
func (c *clientConn) fail(kind, cause error) {
	c.source.mu.Lock()
	defer c.source.mu.Unlock()
	if !c.retired {
		c.source.failLocked(kind, cause)
	}
}

// UpdateState takes a set. It returns an error when the set is of no use, so that resolvers that look things up look
// again, as they do for a policy of grpc-go.
func (c *clientConn) UpdateState(state resolver.State) error {
	if c.source.look().closed {
		return nil
	}
	endpoints, partial := fromState(c.source.name, state)
	if len(endpoints) > 0 {
		c.source.succeed(c, endpoints, partial)
		return nil
	}
	cause := partial
	switch {
	case cause != nil:
	case state.ServiceConfig != nil:
		cause = errConfigInstead
	default:
		cause = errEmpty
	}
	c.fail(ErrNoRecords, cause)
	return cause
}

// ReportError takes the error of a lookup.
func (c *clientConn) ReportError(err error) {
	if err == nil {
		err = errSilentReport
	}
	c.fail(ErrServerFailed, err)
}

// NewAddress is the deprecated form of UpdateState.
func (c *clientConn) NewAddress(addresses []resolver.Address) {
	_ = c.UpdateState(resolver.State{Addresses: addresses}) // this form knows no answer
}

// ParseServiceConfig refuses what nobody would read. A State with the refusal in it is taken all the same.
func (*clientConn) ParseServiceConfig(string) *serviceconfig.ParseResult {
	return &serviceconfig.ParseResult{Err: errNoConfig}
}

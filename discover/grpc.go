// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"
)

const (
	// defaultFreshWait is long for a machine that answers from memory, and short beside the jitter of a reconnect.
	defaultFreshWait = 100 * time.Millisecond
	// closeLimit is more than the 5 s for which Go's own resolver, as grpc-go's "dns" calls it, cannot be stopped.
	closeLimit = 6 * time.Second
)

// GRPCConfig says how a grpc-go resolver is run. The zero value is the default.
type GRPCConfig struct {
	// Options are handed to the builder. Where Authority is empty it is made from the target, as grpc-go makes it;
	// where MetricsRecorder is nil it is one that records nothing. DisableServiceConfig is always set: nobody here
	// would read a service config.
	Options resolver.BuildOptions
	// FreshWait is how long Resolve waits for news after its hint before it takes what is known for the answer. Zero
	// means 100 ms; negative means not at all.
	FreshWait time.Duration
}

// GRPCSource is a grpc-go resolver as a source of endpoints: a [Resolver], [Watcher], [Hinter] and io.Closer. FromGRPC
// makes one. It is safe for concurrent use.
type GRPCSource struct {
	name      string // the target without what may be secret
	builder   resolver.Builder
	target    resolver.Target
	options   resolver.BuildOptions
	freshWait time.Duration

	hints chan struct{} // of one, for hints add up
	quit  chan struct{} // closed by the first Close
	done  chan struct{} // closed when run has ended

	mu      sync.Mutex // guards what follows
	started bool       // run was started
	stopErr error      // what the resolver's Close did wrong
	now     report
}

// report is where a source stands.
type report struct {
	closed  bool          // Close was called
	heard   uint64        // how often the resolver has said something
	version uint64        // how often that changed what is known
	news    chan struct{} // closed, and replaced, with every change of the above
	known   answer
}

// answer is what a source has said so far.
type answer struct {
	endpoints []Endpoint // the last good set; never written to, only replaced
	partial   error      // the *PartialError of that set, or nil
	at        time.Time  // when it came
	failure   error      // what came after that set instead of a newer one, or nil
}

// any says whether there is anything to return.
func (a answer) any() bool { return len(a.endpoints) > 0 || a.failure != nil }

// result is the answer as Resolve returns it.
func (a answer) result() ([]Endpoint, error) {
	switch {
	case len(a.endpoints) == 0:
		return nil, a.failure
	case a.failure != nil:
		return cloneEndpoints(a.endpoints), &StaleError{Cause: a.failure, At: a.at}
	default:
		return cloneEndpoints(a.endpoints), a.partial
	}
}

// FromGRPC returns a source of endpoints that runs a grpc-go resolver for the target. The caller closes it.
//
// The target is read as grpc.NewClient reads it: "etcd:///cluster" when builder.Scheme() is "etcd"; one without a scheme
// gets the builder's. It is an error if it names another scheme, or cannot be read. Builders that are registered are
// found with resolver.Get. Nothing is started before the first Resolve or Watch.
//
// The first Resolve waits for the first set or error. Each later one hints ResolveNow, waits for news for FreshWait at
// most, and returns the newest set: of a source that pushes its changes the current set is the answer, whether or not it
// heeds hints. Resolve takes 5 s at most. An error, or a set without usable endpoints, replaces no earlier set: Resolve
// then returns that set with a *[StaleError]. Without an earlier set it returns a *[SourceError]. When building the
// resolver fails it is built anew at the next hint, or after 1 s, doubling to 30 s.
//
// Each endpoint of grpc-go becomes one Endpoint of priority 0; addresses outside endpoints are endpoints of their own.
// IP addresses become Addrs, a name becomes Host and is looked up when it is dialled. Host is the ServerName of the
// address where that is set and the addresses are known, else the host of the address. Where several endpoints share a
// ServerName and a port they keep the hosts of their addresses, since endpoints of one Addr are one server. In both
// cases it is the ServerName that TLS checks ([Endpoint.VerifyName]). Endpoint weights
// (google.golang.org/grpc/experimental/balancer/weight) are taken over, scaled to 16 bits; where some are set, the others
// count as 1. Attributes, service configs and the targets of deprecated balancers are ignored. What is no TCP address is
// left out and reported in a *[PartialError], and so are addresses of an endpoint beyond what one Endpoint can hold.
//
// grpc-go's own "xds" resolver cannot be a source: it gives no endpoints but a service config, by which load-balancing
// policies inside grpc-go find them. Resolve fails with ErrNoRecords and says so.
//
// The resolver's methods are called one at a time, as grpc-go does it. One that blocks holds up neither Resolve nor, for
// more than 6 s, Close; a panic in one is a failure of the source.
func FromGRPC(builder resolver.Builder, target string, config GRPCConfig) (*GRPCSource, error) {
	if builder == nil {
		return nil, errors.New("discover: no builder of a grpc-go resolver; the scheme may not be registered")
	}
	parsed, err := parseTarget(builder.Scheme(), target)
	if err != nil {
		return nil, fmt.Errorf("discover: the target of a grpc-go resolver %w", err)
	}
	g := &GRPCSource{
		name: shownTarget(parsed), builder: builder, target: parsed, options: buildOptions(config.Options, builder, parsed),
		freshWait: config.FreshWait,
		hints:     make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		now: report{news: make(chan struct{})},
	}
	if g.freshWait == 0 {
		g.freshWait = defaultFreshWait
	}
	return g, nil
}

// Resolve implements [Resolver], as FromGRPC says.
func (g *GRPCSource) Resolve(ctx context.Context) ([]Endpoint, error) {
	if err := ctx.Err(); err != nil {
		return nil, g.ended(err)
	}
	limited, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	before := g.start()
	if before.known.any() {
		g.ResolveNow()
	}
	fresh := time.NewTimer(g.freshWait)
	defer fresh.Stop()
	for waited := g.freshWait < 0; ; {
		now := g.look()
		switch {
		case now.closed:
			return nil, ErrClosed
		case now.known.any() && (waited || now.heard > before.heard):
			return now.known.result()
		}
		select {
		case <-now.news:
		case <-fresh.C:
			waited = true
		case <-limited.Done():
			return g.late(ctx, limited.Err(), now.known)
		}
	}
}

// late is the answer when the time is up: what is known, unless the caller wants none any more.
func (g *GRPCSource) late(ctx context.Context, err error, known answer) ([]Endpoint, error) {
	if errors.Is(ctx.Err(), context.Canceled) || !known.any() {
		return nil, g.ended(err)
	}
	return known.result()
}

// ended is the error of a context that ended before there was an answer.
func (g *GRPCSource) ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return &SourceError{Source: g.name, Err: err}
	}
	return &SourceError{Source: g.name, Kind: ErrTimeout, Err: err}
}

// Watch implements [Watcher].
func (g *GRPCSource) Watch(ctx context.Context, changed func(endpoints []Endpoint, err error)) error {
	g.start()
	for told := uint64(0); ; {
		now := g.look()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case now.closed:
			return ErrClosed
		case now.version > told && now.known.any():
			told = now.version
			changed(now.known.result())
			continue // what has changed meanwhile is news already
		}
		select {
		case <-now.news:
		case <-ctx.Done():
		}
	}
}

// ResolveNow implements [Hinter].
func (g *GRPCSource) ResolveNow() {
	select {
	case g.hints <- struct{}{}:
	default: // one is waiting already
	}
}

// Close stops the resolver and waits until it has stopped, for 6 s at most: a resolver that takes longer is reported and
// left to end by itself. A Resolve or Watch under way returns ErrClosed, and so do later ones; what the resolver still
// says is ignored. The error also tells of a panic of the resolver's own Close. Closing twice is harmless.
func (g *GRPCSource) Close() error {
	g.mu.Lock()
	if !g.now.closed {
		g.now.closed = true
		close(g.quit)
		g.announceLocked()
	}
	started := g.started
	g.mu.Unlock()
	if !started {
		return nil
	}
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-g.done:
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.stopErr
	case <-limit.C:
		return fmt.Errorf("close the resolver of %s: it is still running after %v", g.name, closeLimit)
	}
}

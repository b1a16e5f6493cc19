// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/resolver"
)

const (
	// lookupFloor is the least time from the begin of one lookup to the begin of the next.
	lookupFloor = time.Second
	// A failed lookup is repeated after lookupFloor, doubling to retryMax, or at a hint.
	retryMax = 30 * time.Second
	// builtCloseLimit is how long Close waits for a source that does not heed its context.
	builtCloseLimit = 100 * time.Millisecond
)

// NewBuilder returns a builder of resolvers for targets of the scheme, which finds endpoints as a source of ours does. It
// is meant for grpc.WithResolvers. open makes the source of one target; it is called whenever a channel is made and
// whenever one leaves idle mode, must return at once, and its error is that of the channel. The scheme is used in lower
// case, as grpc-go wants it.
//
// A [Watcher] is watched. Every other source is asked when the channel is made and at each hint: one lookup at a time, of
// 5 s at most, hints that come meanwhile as one, and not sooner than 1 s after the begin of the last one. A [Hinter] is
// given the hints of grpc-go besides, and first. Failed lookups, sets that the policy refuses, and a Watch that has ended
// are repeated after 1 s, doubling to 30 s, or at a hint. Nothing is looked up at intervals. A panic in a source is a
// failure of it.
//
// An error never replaces a set: it is reported to grpc-go only while there has been no set. Endpoints that come with an
// error are used. Only the endpoints of the lowest priority number are passed on, since the policies of grpc-go know no
// backups. Addrs stay together as the addresses of one endpoint; without Addrs the address is [Endpoint.LookupName] and
// the port, which grpc-go looks up when it connects. ServerName, which TLS checks, is [Endpoint.VerifyName], with IPv6
// in brackets; grpc.WithAuthority goes before it. Weights are attributes of the endpoints
// (google.golang.org/grpc/experimental/balancer/weight), for policies that heed them.
//
// When the channel closes its resolver, the context of a lookup ends, and a source that implements io.Closer is closed
// after it. That is waited for, but for 100 ms at most: a source that heeds no context ends by itself.
func NewBuilder(scheme string, open func(target resolver.Target) (Resolver, error)) resolver.Builder {
	return &builder{scheme: strings.ToLower(scheme), open: open}
}

type builder struct {
	scheme string
	open   func(resolver.Target) (Resolver, error)
}

// Scheme implements resolver.Builder.
func (b *builder) Scheme() string { return b.scheme }

// Build implements resolver.Builder.
func (b *builder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	var source Resolver
	var err error
	panicked := guard("source", "open", func() { source, err = b.open(target) })
	switch {
	case panicked != nil:
		return nil, panicked
	case err != nil:
		return nil, fmt.Errorf("open the source of endpoints: %w", err)
	case source == nil:
		return nil, errors.New("open the source of endpoints: there is none")
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &built{source: source, cc: cc, cancel: cancel, hints: make(chan struct{}, 1), done: make(chan struct{}), retry: lookupFloor}
	go r.run(ctx)
	return r, nil
}

// built is a source as a resolver of grpc-go.
type built struct {
	source Resolver
	cc     resolver.ClientConn
	cancel context.CancelFunc
	hints  chan struct{} // of one, for hints add up
	done   chan struct{} // closed when run has ended

	// Only used by run.
	hasSet bool
	retry  time.Duration // the wait after the next failure
}

// ResolveNow implements resolver.Resolver. The hint is for run, too: what a source looks up at a hint is only heard of by
// watching or asking it, and one that is watched may have ended.
func (r *built) ResolveNow(resolver.ResolveNowOptions) {
	if hinter, ok := r.source.(Hinter); ok {
		// The lookup that follows tells of a source that is broken.
		_ = guard("source", "ResolveNow", hinter.ResolveNow)
	}
	select {
	case r.hints <- struct{}{}:
	default: // one is waiting already
	}
}

// Close implements resolver.Resolver.
func (r *built) Close() {
	r.cancel()
	limit := time.NewTimer(builtCloseLimit)
	defer limit.Stop()
	select {
	case <-r.done:
	case <-limit.C:
	}
}

// run asks the source until ctx ends, and closes it. A source that calls runtime.Goexit ends the goroutine and not the
// asking: another one goes on after the wait of a failure.
func (r *built) run(ctx context.Context) {
	ended := false
	defer func() {
		if ended || ctx.Err() != nil {
			close(r.done)
			return
		}
		go func() {
			r.pass(ctx, nil, errExited)
			pause(ctx, r.retry, r.hints)
			r.retry = min(2*r.retry, retryMax)
			r.run(ctx)
		}()
	}()
	r.ask(ctx)
	ended = true
}

func (r *built) ask(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		select {
		case <-r.hints: // the lookup that begins is what it asked for
		default:
		}
		if !r.next(ctx) {
			pause(ctx, r.retry, r.hints)
			r.retry = min(2*r.retry, retryMax)
		} else {
			select {
			case <-r.hints:
			case <-ctx.Done():
			}
		}
		pause(ctx, lookupFloor-time.Since(began), nil)
	}
	if closer, ok := r.source.(io.Closer); ok {
		_ = guard("source", "Close", func() { _ = closer.Close() }) // grpc-go has no place for the errors
	}
}

// pause waits for d, for a hint or for the end of ctx.
func pause(ctx context.Context, d time.Duration, hints <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hints:
	case <-ctx.Done():
	}
}

// next asks the source once, or watches it until that ends. It says whether the channel has the answer.
func (r *built) next(ctx context.Context) bool {
	if watcher, ok := r.source.(Watcher); ok {
		return r.pass(ctx, nil, r.watch(ctx, watcher))
	}
	limited, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	var endpoints []Endpoint
	var err error
	if panicked := guard("source", "Resolve", func() { endpoints, err = r.source.Resolve(limited) }); panicked != nil {
		endpoints, err = nil, panicked
	}
	return r.pass(ctx, endpoints, err)
}

// watch watches the source until that ends. What panics while the channel is told something is grpc-go, or a policy under
// it, and not the source: that is left alone, since there is no going on with a channel that was left in the middle.
func (r *built) watch(ctx context.Context, watcher Watcher) (err error) {
	telling := false
	defer func() {
		if telling {
			return
		}
		if value := recover(); value != nil {
			err = panicError("source", "Watch", value)
		}
	}()
	return watcher.Watch(ctx, func(endpoints []Endpoint, err error) {
		telling = true
		r.pass(ctx, endpoints, err)
		telling = false
	})
}

// pass hands an answer to the channel. It says whether it was a set, and one that the policy did not refuse.
func (r *built) pass(ctx context.Context, endpoints []Endpoint, err error) bool {
	switch {
	case ctx.Err() != nil:
		return false
	case len(endpoints) > 0:
		if r.cc.UpdateState(toState(endpoints)) != nil {
			return false
		}
		r.hasSet, r.retry = true, lookupFloor
		return true
	case err == nil:
		err = errEmpty
	}
	if !r.hasSet {
		r.cc.ReportError(err)
	}
	return false
}

// toState makes a state of the endpoints of the lowest priority number, in their order.
func toState(endpoints []Endpoint) resolver.State {
	first := slices.MinFunc(endpoints, func(a, b Endpoint) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
	var state resolver.State
	for _, e := range endpoints {
		if e.Priority != first {
			continue
		}
		given := resolver.Endpoint{Addresses: toAddresses(e)}
		if e.Weight > 0 {
			given = weight.Set(given, weight.EndpointInfo{Weight: uint32(e.Weight)})
		}
		state.Endpoints = append(state.Endpoints, given)
		state.Addresses = append(state.Addresses, given.Addresses...) // for policies from before there were endpoints
	}
	return state
}

func toAddresses(e Endpoint) []resolver.Address {
	name := e.VerifyName()
	if strings.Contains(name, ":") {
		name = "[" + name + "]" // it becomes the authority of calls as well
	}
	if len(e.Addrs) == 0 {
		addr := net.JoinHostPort(e.LookupName(), strconv.Itoa(int(e.Port)))
		return []resolver.Address{{Addr: addr, ServerName: name}}
	}
	addresses := make([]resolver.Address, len(e.Addrs))
	for i, addr := range e.Addrs {
		addresses[i] = resolver.Address{Addr: addr.String(), ServerName: name}
	}
	return addresses
}

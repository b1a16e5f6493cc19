// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
	"github.com/evenkeel-go/evenkeel/discover"
)

// liveConfig is what a resolver is made of.
type liveConfig struct {
	source

	cc        resolver.ClientConn
	from      serviceFrom
	noService bool // the channel of grpc-go wants no service config of its resolver
}

// liveResolver supplies one channel of grpc-go, from its leaving idle mode until it goes there again or is closed.
type liveResolver struct {
	channel *Channel
	config  liveConfig
	logger  *slog.Logger
	hooks   *policy.Hooks
	states  *states
	txt     *txtSource // nil when no service config is looked up
	cancel  context.CancelFunc

	ours  atomic.Bool // the policy in use tells what is usable
	ready atomic.Bool // it has said once that something is

	mu     sync.Mutex
	poller *discover.Poller // guarded by mu; nil while there is none
	usable bool             // guarded by mu: what the policy said last
	told   bool             // guarded by mu: the policy has said something
	closed bool             // guarded by mu

	// What follows belongs to the goroutine of the poller, and before there is one to Build.
	set      index
	sent     string // the service config that was sent; empty means none
	accepted bool   // grpc-go took what was sent
}

// start makes a resolver of a source, gives it the last good set and begins to look.
func (c *Channel) start(config liveConfig) (resolver.Resolver, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &liveResolver{
		channel: c, config: config, cancel: cancel,
		logger: c.config.Logger.With("target", config.target),
		states: newStates(c.metrics, config.target),
	}
	r.hooks = &policy.Hooks{Endpoint: r.endpoint, Usable: r.setUsable}
	if !c.enter(r) {
		cancel()
		config.cc.ReportError(ErrClosed)
		return refused{}, nil
	}
	last := c.memory.get(config.target)
	if c.txtWanted(config) {
		lookup := newTXTLookup(config.txt, config.nameServer, c.system, c.roll)
		r.txt = &txtSource{
			Resolver: config.resolver, label: label(config.target), current: last.txt, known: last.txt != nil,
			lookUp: func(limited context.Context) (serviceConfig, error) {
				joined, stop := context.WithCancel(limited)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				return lookup.get(joined)
			},
			failed: func(err error) { r.logger.Warn("service config of DNS is left out", "error", err) },
			late:   r.hint,
		}
		r.config.resolver = r.txt
	}
	if len(last.endpoints) > 0 {
		r.set = newIndex(last.endpoints) // it is no change
		r.publish(last.endpoints)
	}
	return r, r.look()
}

// txtWanted says whether a service config is to be looked up.
func (c *Channel) txtWanted(config liveConfig) bool {
	return c.txt && config.txt != "" && !config.noService
}

// look begins to look the target up. A source that cannot change is asked once.
func (r *liveResolver) look() error {
	if r.config.fixed {
		endpoints, err := r.config.resolver.Resolve(context.Background())
		r.result(discover.PollResult{Endpoints: endpoints, Err: err, Class: discover.ErrorClass(err), At: time.Now()})
		return nil
	}
	config := r.channel.config
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed { // by Channel.Close, which came between
		return nil
	}
	poller, err := discover.NewPoller(discover.PollerConfig{
		Resolver: r.config.resolver, OnResult: r.result,
		Interval: config.Interval, MaxInterval: config.MaxInterval, MinInterval: config.MinInterval,
	})
	if err != nil {
		return err // not reached: New has checked the intervals
	}
	r.poller = poller
	if r.told {
		poller.SetUsable(r.usable)
	}
	return nil
}

// ResolveNow implements resolver.Resolver. grpc-go asks when a connection was lost or could not be made. While there has
// been no connection at all that means that none of the set is usable.
func (r *liveResolver) ResolveNow(resolver.ResolveNowOptions) {
	if r.ours.Load() && !r.ready.Load() {
		r.setUsable(false)
	}
	r.hint()
}

func (r *liveResolver) hint() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.poller != nil {
		r.poller.ResolveNow()
	}
}

// Close implements resolver.Resolver. It takes 100 ms at most.
func (r *liveResolver) Close() {
	r.cancel()
	r.mu.Lock()
	r.closed = true
	poller := r.poller
	r.mu.Unlock()
	if poller != nil {
		poller.Close()
	}
	r.states.close()
	r.channel.leave(r)
}

// setUsable is called by the policy. It blocks for nobody: the poller only takes a note.
func (r *liveResolver) setUsable(usable bool) {
	if usable {
		r.ready.Store(true)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.usable, r.told = usable, true
	if r.poller != nil {
		r.poller.SetUsable(usable)
	}
}

// endpoint is called by the policy.
func (r *liveResolver) endpoint(addr string, was, state connectivity.State, err error) {
	r.states.move(was, state)
	if err == nil {
		r.logger.Debug("endpoint changed its state", "endpoint", addr, "state", state.String())
	} else {
		r.logger.Debug("endpoint changed its state", "endpoint", addr, "state", state.String(), "error", err)
	}
	r.channel.observe.endpoint(EndpointState{Target: r.config.target, Addr: addr, At: time.Now(), State: state, Err: err})
}

// result takes what a lookup has brought.
func (r *liveResolver) result(result discover.PollResult) {
	found := result.Failures == 0 && len(result.Endpoints) > 0
	r.report(result, found)
	switch {
	case found:
		r.publish(result.Endpoints)
	case len(r.set) == 0:
		r.config.cc.ReportError(result.Err)
	}
}

// report tells of a resolution.
func (r *liveResolver) report(result discover.PollResult, found bool) {
	resolution := Resolution{
		Target: r.config.target, At: result.At, Duration: result.Took, Err: result.Err, Class: result.Class,
	}
	if found {
		resolution.Endpoints = len(result.Endpoints)
	}
	level := slog.LevelDebug
	if result.Failures == 1 { // those after it say nothing new
		level = slog.LevelWarn
	}
	attributes := []slog.Attr{slog.Duration("duration", result.Took), slog.Int("endpoints", resolution.Endpoints)}
	if result.Err != nil {
		attributes = append(attributes, slog.String("class", result.Class), slog.Any("error", result.Err))
	}
	r.logger.LogAttrs(context.Background(), level, "target resolved", attributes...)
	r.channel.metrics.resolved(resolution)
	r.channel.observe.resolved(resolution)
}

// publish hands a set to grpc-go, unless it has it already.
func (r *liveResolver) publish(endpoints []discover.Endpoint) {
	next := newIndex(endpoints)
	change, differs := r.set.change(next)
	config, ours := r.service()
	r.ours.Store(ours)
	if !differs && r.accepted && config == r.sent {
		return
	}
	state := shape{named: r.config.named, backups: ours}.toState(endpoints)
	if config != "" {
		state.ServiceConfig = r.config.cc.ParseServiceConfig(config)
	}
	r.set, r.sent = next, config
	r.remember(endpoints)
	if differs {
		r.changed(change)
	}
	err := r.config.cc.UpdateState(policy.WithOrigin(policy.WithHooks(state, r.hooks)))
	if r.accepted = err == nil; err != nil {
		r.logger.Warn("policy refused the endpoints; they are offered again after the next lookup", "error", err)
	}
}

// service returns the service config to send, empty for none, and whether its policy is one of ours. One of DNS that
// grpc-go refuses is left out.
func (r *liveResolver) service() (string, bool) {
	c := r.channel
	if r.txt != nil {
		if given := r.txt.get(); given != nil {
			merged := c.service.with(given)
			name, err := merged.policy()
			if err == nil {
				err = r.config.cc.ParseServiceConfig(merged.json()).Err
			}
			if err == nil {
				return merged.json(), isOurs(name)
			}
			r.logger.Warn("service config of DNS is left out", "error", err)
		}
	}
	// grpc-go keeps one that it was sent until it is sent another.
	if r.sent == "" && r.config.from == serviceFromOptions || r.config.noService {
		return "", isOurs(c.policyName)
	}
	return c.service.json(), isOurs(c.policyName)
}

func (r *liveResolver) remember(endpoints []discover.Endpoint) {
	last := remembered{endpoints: endpoints}
	if r.txt != nil {
		last.txt = r.txt.get()
	}
	r.channel.memory.put(r.config.target, last)
}

// changed tells of a new set.
func (r *liveResolver) changed(change Change) {
	change.Target, change.At = r.config.target, time.Now()
	r.logger.Info("endpoints changed", "added", len(change.Added), "removed", len(change.Removed), "kept", len(change.Kept))
	r.channel.metrics.changed(change)
	r.channel.observe.changed(change)
}

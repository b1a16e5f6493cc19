// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"context"
	"log/slog"
	"sync"
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
	hooks   *policy.Hooks
	states  *states
	txt     *txtSource // nil when no service config is looked up
	cancel  context.CancelFunc

	mu     sync.Mutex       // comes after that of the hooks
	poller *discover.Poller // guarded by mu; nil while there is none
	took   uint64           // guarded by mu: states that a policy of ours has taken
	ours   bool             // guarded by mu: the policy at work is one of ours
	ready  bool             // guarded by mu: it has said once that something is usable
	usable bool             // guarded by mu: what it said last
	told   bool             // guarded by mu: it has said something
	short  bool             // guarded by mu: backups were left out of what was sent
	busy   bool             // guarded by mu: a state is being sent
	closed bool             // guarded by mu

	// What follows belongs to the goroutine of the poller, and before there is one to Build.
	set      index
	sent     string // the service config that was sent; empty means none
	accepted bool   // grpc-go took what was sent
	failed   bool   // grpc-go was told of a failed lookup since
}

// start makes a resolver of a source, gives it the last good set and begins to look.
func (c *Channel) start(config liveConfig) (resolver.Resolver, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &liveResolver{channel: c, config: config, cancel: cancel, states: newStates(c.metrics, config.target)}
	r.hooks = &policy.Hooks{Took: r.tookState, Endpoint: r.endpoint, Usable: r.setUsable}
	if c.health != "" {
		r.hooks.HealthService, r.hooks.NoHealth = c.health, r.noHealth
	}
	last, open := c.enter(r)
	if !open {
		cancel()
		config.cc.ReportError(ErrClosed)
		return refused{}, nil
	}
	if c.txtWanted(config) {
		r.addTXT(ctx, last.txt)
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

// addTXT has a service config looked up beside the endpoints, until ctx ends.
func (r *liveResolver) addTXT(ctx context.Context, last serviceConfig) {
	c := r.channel
	lookup := newTXTLookup(r.config.txt, r.config.nameServer, c.system, c.roll)
	r.txt = &txtSource{
		Resolver: r.config.resolver, label: label(r.config.target), current: last, known: last != nil,
		lookUp: func(limited context.Context) (serviceConfig, error) {
			joined, stop := context.WithCancel(limited)
			defer stop()
			defer context.AfterFunc(ctx, stop)()
			return lookup.get(joined)
		},
		failed: r.leftOut,
		late:   r.hint,
	}
	r.config.resolver = r.txt
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ours && !r.ready {
		r.setUsableLocked(false)
	}
	r.hintLocked()
}

func (r *liveResolver) hint() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hintLocked()
}

func (r *liveResolver) hintLocked() {
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

// tookState is called by a policy of ours, in the middle of an update. It says which policy is at work, which the service
// config does not: the dial options may hold another one, which replaces ours.
func (r *liveResolver) tookState(first bool) {
	if first {
		r.states.clear()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took++
	r.ours = true
	if first {
		r.anewLocked()
	}
	if r.short && !r.busy { // the way to a proxy is long: the update has returned before
		r.hintLocked()
	}
}

// anewLocked forgets what a policy has said: nothing is known of the endpoints of another one.
func (r *liveResolver) anewLocked() {
	r.ready = false
	if r.told {
		r.setUsableLocked(true)
	}
}

// setUsable is called by the policy. It blocks for nobody: the poller only takes a note.
func (r *liveResolver) setUsable(usable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = r.ready || usable
	r.setUsableLocked(usable)
}

func (r *liveResolver) setUsableLocked(usable bool) {
	r.usable, r.told = usable, true
	if r.poller != nil {
		r.poller.SetUsable(usable)
	}
}

// endpoint is called by the policy.
func (r *liveResolver) endpoint(addr string, was, is connectivity.State, err error) {
	r.states.move(was, is)
	record := r.record(slog.LevelDebug, "endpoint changed its state", slog.String("endpoint", addr), slog.String("state", is.String()))
	if err != nil {
		record.AddAttrs(slog.Any("error", err))
	}
	r.channel.observe.endpoint(EndpointState{Target: r.config.target, Addr: addr, At: time.Now(), State: is, Err: err}, record)
}

// noHealth is called by the policy.
func (r *liveResolver) noHealth(addr string) {
	if !r.channel.memory.firstWithoutHealth(r.config.target) {
		return
	}
	r.channel.observe.endpoint(
		EndpointState{Target: r.config.target, Addr: addr, At: time.Now(), State: connectivity.Ready, Err: ErrNoHealthService},
		r.record(slog.LevelWarn, "server has no health service, and counts as healthy", slog.String("endpoint", addr)))
}

// leftOut tells why a service config of DNS does not count.
func (r *liveResolver) leftOut(err error) {
	r.channel.observe.log(r.record(slog.LevelWarn, "service config of DNS is left out", slog.Any("error", err)))
}

// record makes a record about the target.
func (r *liveResolver) record(level slog.Level, message string, attributes ...slog.Attr) slog.Record {
	return newRecord(level, message, append([]slog.Attr{slog.String("target", r.config.target)}, attributes...)...)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/decide"
)

const (
	defaultInterval = 30 * time.Second
	defaultRests    = 10 // intervals between two moves

	shortestInterval = 100 * time.Millisecond
	longestInterval  = 24 * time.Hour
)

// RebalanceConfig configures NewRebalancer. The zero value has the defaults.
type RebalanceConfig struct {
	// Interval is the time between two looks of one client at the servers' counts, on average: each wait is up to a
	// quarter shorter or longer. A fleet is even again after two to four of them. Zero means 30 s; from 100 ms to 24 h are
	// allowed.
	Interval time.Duration
	// Calm is how long a client must have been on its server, and how long it must have seen nothing go wrong, before it
	// may move: no session of its own lost, no server that failed an attempt or stopped telling its count. Zero means
	// Interval; 24 h is the most.
	Calm time.Duration
	// Rest is the least time between two moves of one client, whatever servers say. After each further move it is twice as
	// long, up to 12 times, until the client has not moved for four times as long. Zero means ten times Interval; 24 h is
	// the most.
	Rest time.Duration
	// Timeout is how long a server has to answer. Zero means 2 s; one minute is the most.
	Timeout time.Duration
	// Prober asks the servers. NewRebalancer needs one, which stays the caller's.
	Prober Prober
}

// Validate reports all faults of the configuration, joined. A Prober is not missed.
func (c RebalanceConfig) Validate() error {
	var errs []error
	if c.Interval != 0 && (c.Interval < shortestInterval || c.Interval > longestInterval) {
		errs = append(errs, fmt.Errorf("balance: interval of %v, it must lie between %v and %v", c.Interval, shortestInterval, longestInterval))
	}
	if c.Calm < 0 || c.Calm > longestInterval {
		errs = append(errs, fmt.Errorf("balance: calm of %v, it must lie between 0 and %v", c.Calm, longestInterval))
	}
	if c.Rest < 0 || c.Rest > longestInterval {
		errs = append(errs, fmt.Errorf("balance: rest of %v, it must lie between 0 and %v", c.Rest, longestInterval))
	}
	if c.Timeout < 0 || c.Timeout > longestSetting {
		errs = append(errs, fmt.Errorf("balance: timeout of %v, it must lie between 0 and %v", c.Timeout, longestSetting))
	}
	return errors.Join(errs...)
}

// plan returns the decision's part of the configuration, with the defaults filled in.
func (c RebalanceConfig) plan() decide.RebalanceConfig {
	plan := decide.RebalanceConfig{Interval: c.Interval, Calm: c.Calm, Rest: c.Rest}
	if plan.Interval == 0 {
		plan.Interval = defaultInterval
	}
	if plan.Calm == 0 {
		plan.Calm = plan.Interval
	}
	if plan.Rest == 0 {
		plan.Rest = min(defaultRests*plan.Interval, longestInterval)
	}
	return plan
}

// Rebalancer decides whether a client that has a session moves to another server, so that a fleet becomes even again after
// servers were added, restarted or came back. Every client decides for itself, by the counts that all servers tell.
//
// A client moves when its server has more clients than 1.04 times the mean, rounded up, in proportion to the capacities; and
// then with the probability that takes away what is above the mean and no more. A second look at more servers, up to a
// tenth of the interval later, has to agree. The target is drawn from those below the mean, in proportion to how far they
// are below it, and reserved at under the bound that it stays there; of a stock server, which knows no bounds, the count is
// asked once more.
//
// It is used by one goroutine at a time, but for Release. NewRebalancer makes one; Close ends it.
type Rebalancer struct {
	asker
	decision *decide.Rebalancer
	clock    time.Time
}

var _ Releaser = (*Rebalancer)(nil)

// NewRebalancer returns a Rebalancer for a client that has no session yet. It asks nobody before Select is called.
func NewRebalancer(config RebalanceConfig) (*Rebalancer, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Prober == nil {
		return nil, errors.New("balance: a rebalancer needs a prober")
	}
	r := &Rebalancer{asker: newAsker(config.Prober, config.Timeout), clock: time.Now()}
	r.decision = decide.NewRebalancer(config.plan(), r.rand, 0)
	return r, nil
}

// Close ends what is still under way. It returns nil.
func (r *Rebalancer) Close() error {
	r.end()
	return nil
}

// Release implements Releaser: for a place to move to that could not be used.
func (r *Rebalancer) Release(ctx context.Context, endpoint discover.Endpoint, id string) error {
	return r.giveBack(ctx, endpoint, id)
}

// Began tells that a session has begun.
func (r *Rebalancer) Began() { r.decision.Began(r.now()) }

// Troubled tells that a session was lost, or that a server failed an attempt.
func (r *Rebalancer) Troubled() { r.decision.Troubled(r.now()) }

// Wait returns how long it is until the next look, 0 or more.
func (r *Rebalancer) Wait() time.Duration { return max(r.decision.Next()-r.now(), 0) }

// Look draws when the next look is due, and reports whether one now can lead to a move: where the client has to stay anyway,
// no server need be asked.
func (r *Rebalancer) Look() bool { return r.decision.Look(r.now()) }

// Select looks at the servers, and returns the one to move to, at which it has reserved a place where that was possible; ok
// says that there is one. own is the server that the client is on, with the address that it is connected to, and others are
// those that it may move to. The error of a ctx that is done before is no reason to end the session.
func (r *Rebalancer) Select(ctx context.Context, own discover.Endpoint, others []discover.Endpoint) (selection Selection, ok bool, err error) {
	candidates := append([]discover.Endpoint{own}, others...)
	ballot := decide.Ballot{Names: make([]string, len(candidates)), Weights: make([]uint16, len(candidates))}
	for i := range candidates {
		ballot.Names[i], ballot.Weights[i] = candidates[i].Addr(), candidates[i].Weight
	}
	first := r.decision.Begin(r.now(), ballot)
	selection, err = newChoice(&r.asker, r.decision, candidates, r.clock).run(ctx, first)
	if errors.Is(err, errStay) {
		return selection, false, nil
	}
	return selection, err == nil, err
}

func (r *Rebalancer) now() time.Duration { return time.Since(r.clock) }

// Others returns the endpoints that a client may move to from the server with the Addr of own: those of the same priority
// whose penalty does not run at now. ok is false where the own server is not among the endpoints; its weight then is not
// known. Penalties may be nil. The result is the caller's.
func Others(endpoints []discover.Endpoint, penalties *Penalties, own string, now time.Time) (others []discover.Endpoint, at discover.Endpoint, ok bool) {
	attempt := NewAttempt(endpoints, nil, "") // which knows each endpoint once
	for _, tier := range attempt.tiers {
		others, ok = nil, false
		for _, endpoint := range tier.left {
			switch {
			case endpoint.Addr() == own:
				at, ok = endpoint, true
			case penalties.span(endpoint.Addr(), now) == 0:
				others = append(others, endpoint)
			}
		}
		if ok {
			return others, at, true
		}
	}
	return nil, discover.Endpoint{}, false
}

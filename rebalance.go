// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"errors"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
)

// errKeep: a look found no reason to move.
var errKeep = errors.New("the session is where it should be")

// checkRebalance reports what contradicts WithRebalance.
func (c *config) checkRebalance(cs *connstring.ConnString) error {
	if c.rebalance == nil {
		return nil
	}
	errs := []error{c.rebalance.Validate()}
	if c.sessionless {
		errs = append(errs, errors.New("WithRebalance contradicts WithoutSession: servers do not count such a client"))
	}
	counting := c.strategy == nil && cs.EffectiveLoadBalancer() == connstring.LeastConnections
	if c.rebalance.Prober == nil && !counting {
		errs = append(errs, errors.New("WithRebalance needs a Prober where the strategy is not least-connections"))
	}
	return errors.Join(errs...)
}

// rebalancer is that of the configuration; nil where none is wanted. It is called after selection.
func (c *config) rebalancer() (*balance.Rebalancer, error) {
	if c.rebalance == nil {
		return nil, nil //nolint:nilnil // none is no failure
	}
	settings := *c.rebalance
	if settings.Prober == nil {
		settings.Prober = c.leastConnections.Prober
	}
	return balance.NewRebalancer(settings)
}

// nextLook is a timer for the next look of the rebalancer; nil where there is none.
func (s *supervisor) nextLook() *time.Timer {
	if s.rebalancer == nil {
		return nil
	}
	return time.NewTimer(s.rebalancer.Wait())
}

// rebalance looks whether the session had better be elsewhere, and moves it. The loop waits for that, but not when the
// session ends or somebody wants another move.
func (s *supervisor) rebalance(ctx context.Context) outcome {
	type result struct {
		gen *generation
		err error
	}
	old := s.gen
	if !s.rebalancer.Look() {
		return sessionKept
	}
	look, cancel := context.WithCancel(old.ctx)
	defer cancel()
	results := make(chan result, 1)
	go func() {
		gen, err := s.attempter.relocate(ctx, look, old.endpoint, s.rebalancer)
		results <- result{gen, err}
	}()
	for {
		select {
		case r := <-results:
			return s.rebalanced(ctx, old, r.gen, r.err)
		case reply := <-s.conn.moves:
			s.moves = append(s.moves, reply)
			cancel()
		}
	}
}

// rebalanced takes over what came of a look.
func (s *supervisor) rebalanced(ctx context.Context, old, gen *generation, err error) outcome {
	switch {
	case ctx.Err() != nil:
		return s.attempted(ctx, gen, err)
	case err == nil:
		s.leave(old, ErrRebalanced)
		return s.attempted(ctx, gen, nil)
	case old.cause() != nil:
		return s.ended(ctx)
	case len(s.moves) > 0:
		return sessionLeaving
	default:
		return sessionKept
	}
}

// note keeps the history that the rebalancer goes by.
func (s *supervisor) note(e Event) {
	if s.rebalancer == nil {
		return
	}
	switch e.Kind {
	case EventConnected:
		s.rebalancer.Began()
	case EventCandidateFailed, EventLost, EventBackingOff:
		s.rebalancer.Troubled()
	default:
	}
}

// relocate looks at the servers and, where that leads away from own, makes a generation there; else its error says why
// not. life bounds the new session, look all that happens before it.
func (a *attempter) relocate(
	life, look context.Context, own discover.Endpoint, rebalancer *balance.Rebalancer,
) (*generation, error) {
	endpoints, err := a.lookUp(look)
	if len(endpoints) == 0 {
		return nil, err
	}
	others, listed, ok := balance.Others(endpoints, a.penalties, own.Addr(), time.Now())
	if !ok {
		return nil, errKeep // nothing is known of its place among the others
	}
	listed.Addrs = own.Addrs
	selection, moves, err := rebalancer.Select(look, listed, others)
	if err != nil {
		return nil, err
	} else if !moves {
		return nil, errKeep
	}
	a.emit(Event{Kind: EventSelected, Endpoint: selection.Endpoint, Observations: selection.Observations})
	ctx, cancel := context.WithTimeoutCause(look, attemptLimit, errAttemptTime)
	defer cancel()
	gen, failure := a.open(life, ctx, selection)
	switch {
	case failure == nil:
		return gen, nil
	case look.Err() == nil:
		a.failed(life, rebalancer, selection, failure)
	default: // it was not the server's fault
		a.giveBack(life, rebalancer, selection)
	}
	return nil, failure
}

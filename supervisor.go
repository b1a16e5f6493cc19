// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/dial"
)

// supervisor is the loop that owns the sessions of a Conn, one after the other. Its fields belong to the loop's
// goroutine.
type supervisor struct {
	conn      *Conn
	attempter attempter

	ladder    ladder
	penalties *balance.Penalties
	random    *rand.Rand

	gen      *generation // the session that is up
	number   uint64      // of the last session
	lost     string      // the Addr of the server whose session was lost last and not replaced since
	failure  error       // why the last attempt failed
	released []func() error
}

func newSupervisor(cs *connstring.ConnString, cfg *config) (*supervisor, error) {
	resolver, err := cfg.source(cs)
	if err != nil {
		return nil, err
	}
	s := &supervisor{
		penalties: balance.NewPenalties(),
		random:    rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), //nolint:gosec // spreads clients, hides nothing
	}
	strategy, release, err := cfg.selection(cs)
	if err != nil {
		return nil, err
	}
	s.released = release
	s.attempter = attempter{
		resolver:    discover.LastGood(resolver),
		strategy:    strategy,
		tls:         cfg.tlsConfig(cs),
		dialOptions: cfg.dialOptions,
		maxJitter:   cfg.maxJitter(),
		dialer:      cfg.dialer,
		emit:        func(e Event) { s.emit(e) },
	}
	if s.attempter.dialer == nil {
		s.attempter.dialer = &dial.Dialer{}
	}
	return s, nil
}

// run is the life of the Conn: each turn performs one action and lets step decide on the next.
func (s *supervisor) run(ctx context.Context) {
	state, next := StateConnecting, actAttempt
	for next != actEnd {
		var o outcome
		switch next {
		case actAttempt:
			o = s.attempt(ctx)
		case actHold:
			o = s.hold(ctx)
		case actBackOff:
			o = s.backOff(ctx)
		case actEnd:
		}
		state, next = step(state, o)
		s.enter(state)
	}
	s.shutDown()
}

// enter shows the new state to calls. A session that is no longer the current one is closed only after that, so that
// no call can find it and wait for it in vain.
func (s *supervisor) enter(state State) {
	gen := s.gen
	if state != StateReady {
		gen = nil
	}
	if state == StateShutdown {
		s.failure = ErrClosed
	}
	s.conn.publish(state, gen, s.failure)
	if state != StateReady && s.gen != nil {
		s.gen.close(ErrClosed)
		s.gen = nil
	}
}

// attempt makes a generation.
func (s *supervisor) attempt(ctx context.Context) outcome {
	gen, err := s.attempter.attempt(ctx, s.penalties, s.lost, s.random)
	if ctx.Err() != nil {
		if gen != nil {
			gen.close(ErrClosed)
		}
		return closed
	}
	if err != nil {
		s.failure = err
		return attemptFailed
	}
	s.number++
	gen.number = s.number
	s.gen, s.lost, s.failure = gen, "", nil
	s.emit(Event{
		Kind: EventConnected, Generation: gen.number, Endpoint: gen.endpoint, Observations: gen.observations,
	})
	return attemptSucceeded
}

// hold keeps the session until it is lost.
func (s *supervisor) hold(ctx context.Context) outcome {
	<-s.gen.ctx.Done()
	if ctx.Err() != nil {
		return closed
	}
	now, cause := time.Now(), s.gen.cause()
	uptime := now.Sub(s.gen.readyAt)
	s.lost = s.gen.endpoint.Addr()
	s.ladder.sessionEnded(uptime)
	if uptime >= steadyUptime {
		s.penalties.Clear(s.lost)
	} else {
		s.penalties.Fail(s.lost, now)
	}
	s.emit(Event{Kind: EventLost, Generation: s.gen.number, Endpoint: s.gen.endpoint, Err: cause})
	if uptime < minUptime {
		s.failure = cause
		return sessionFlapped
	}
	return sessionLost
}

// backOff waits for the next attempt.
func (s *supervisor) backOff(ctx context.Context) outcome {
	wait := s.ladder.climb(s.random)
	s.emit(Event{Kind: EventBackingOff, Generation: s.number, Wait: wait, Err: s.failure})
	if !sleep(ctx, wait) {
		return closed
	}
	return waitEnded
}

// shutDown releases what the Conn owns besides its session.
func (s *supervisor) shutDown() {
	var errs []error
	for _, release := range s.released {
		errs = append(errs, release())
	}
	s.emit(Event{Kind: EventClosed, Generation: s.number, Err: errors.Join(errs...)})
	if s.conn.events != nil {
		s.conn.events.end()
	}
}

// emit tells everybody who listens. Nobody can hold it up.
func (s *supervisor) emit(e Event) {
	e.Time = time.Now()
	s.conn.remember(e)
	if s.conn.events != nil {
		s.conn.events.put(e)
	}
}

// sleep waits for d and says whether it did before ctx was done.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

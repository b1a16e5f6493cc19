// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/dial"
)

// drainLimit is how long the calls on a session that was left may go on.
const drainLimit = 30 * time.Second

// supervisor is the loop that owns the sessions of a Conn, one after the other. Its fields belong to the loop's
// goroutine.
type supervisor struct {
	conn      *Conn
	attempter attempter

	ladder ladder
	stopOn []error // what ends the Conn
	flaps  int     // sessions in a row that did not live for minUptime

	gen     *generation // the session that is up, or is being left
	number  uint64      // of the last session
	lost    string      // the Addr of the server whose session was lost last and not replaced since
	failure error       // why the last attempt failed
	hasty   int         // sessions in a row that were asked to leave before minStay

	rebalancer *balance.Rebalancer // nil where none is wanted

	moves    []chan<- error // Reselect calls that wait for the result of the next attempt
	untold   []func()       // what is told after the next show
	leftover sync.WaitGroup // sessions that were left and still have calls
	released []func() error
}

func newSupervisor(cs *connstring.ConnString, cfg *config) (*supervisor, error) {
	s := &supervisor{stopOn: cfg.stopOn}
	if err := cfg.loadCertificate(cs, s.certificateChanged); err != nil {
		return nil, err
	}
	checker, err := cfg.checker(cs)
	if err != nil {
		return nil, err
	}
	resolver, err := cfg.source(cs)
	if err != nil {
		return nil, err
	}
	strategy, release, err := cfg.selection(cs)
	if err != nil {
		return nil, err
	}
	s.released = release
	if s.rebalancer, err = cfg.rebalancer(); err != nil {
		return nil, errors.Join(append(s.release(), err)...)
	}
	if s.rebalancer != nil {
		s.released = append([]func() error{s.rebalancer.Close}, s.released...)
	}
	s.attempter = attempter{
		resolver:    discover.LastGood(resolver),
		strategy:    strategy,
		resolving:   newToken(),
		selecting:   newToken(),
		penalties:   balance.NewPenalties(),
		tls:         cfg.tlsConfig(cs),
		dialOptions: cfg.dialOptions,
		dialer:      cfg.dialer,
		maxJitter:   cfg.maxJitter(),
		checker:     checker,
		info:        cfg.info.withDefaults(),
		onReady:     cfg.onReady,
		sessionless: cfg.sessionless,
		emit:        s.emit,
		background:  s.leftover.Go,
	}
	if s.attempter.dialer == nil {
		tcp := dial.Dialer{Proxy: cfg.proxy()}
		s.attempter.dialer, s.attempter.proxied = tcp, tcp.Proxied
	}
	s.attempter.auth, err = cfg.authentication(cs, s.attempter.dialer)
	if err != nil {
		return nil, errors.Join(append(s.release(), err)...)
	}
	return s, nil
}

// run is the life of the Conn: each turn performs one action and lets step decide on the next.
func (s *supervisor) run(ctx context.Context) {
	state, next := StateConnecting, actAttempt
	for next != actEnd {
		state, next = step(state, s.perform(ctx, next))
		if state == StateShutdown && ctx.Err() != nil {
			s.failure = ErrClosed
		}
		s.show(state)
		s.tell()
	}
	s.shutDown()
}

// afterwards puts off what is told until calls see what it is about: who learns that a session is up finds it.
func (s *supervisor) afterwards(tell func()) { s.untold = append(s.untold, tell) }

func (s *supervisor) tell() {
	for _, tell := range s.untold {
		tell()
	}
	s.untold = nil
}

func (s *supervisor) perform(ctx context.Context, a action) outcome {
	switch a {
	case actAttempt:
		return s.connect(ctx)
	case actHold:
		return s.hold(ctx)
	case actMove:
		return s.move(ctx)
	case actRebalance:
		return s.rebalance(ctx)
	case actBackOff:
		return s.backOff(ctx)
	default:
		return closed
	}
}

// show replaces what calls see by the state and its session. A session that is no longer the current one is let go
// only after that, so that no call can find it and wait for it in vain.
func (s *supervisor) show(state State) {
	current := s.gen
	if state != StateReady {
		current, s.gen = nil, nil
	}
	if old := s.conn.publish(state, current, s.failure); old != nil && old != current {
		s.letGo(old)
	}
}

// letGo closes a session that is no longer the current one: at once when its server is lost, else when its calls have
// ended. The loop waits for neither.
func (s *supervisor) letGo(old *generation) {
	cause := old.cause()
	s.leftover.Go(func() {
		if leaving(cause) || errors.Is(cause, ErrReselected) || errors.Is(cause, ErrRebalanced) {
			old.drain(old.life, drainLimit)
		}
		old.close(ErrClosed)
	})
}

// connect makes a generation when there is none.
func (s *supervisor) connect(ctx context.Context) outcome {
	gen, err := s.attempter.attempt(ctx, errand{lost: s.lost, reconnect: s.lost != ""})
	return s.attempted(ctx, gen, err)
}

// attempted takes over what an attempt brought.
func (s *supervisor) attempted(ctx context.Context, gen *generation, err error) outcome {
	if ctx.Err() != nil {
		if gen != nil {
			gen.close(ErrClosed)
		}
		s.answerMoves(ErrClosed)
		return closed
	}
	s.afterwards(func() { s.answerMoves(err) })
	if err != nil {
		s.failure, s.lost = err, "" // the next attempt leaves nobody out
		if s.stops(err) {
			return stopped
		}
		return attemptFailed
	}
	s.number++
	gen.number = s.number
	s.gen, s.lost, s.failure = gen, "", nil
	up := Event{
		Kind: EventConnected, Generation: gen.number, Endpoint: gen.endpoint, Observations: gen.observations,
	}
	s.afterwards(func() { s.emit(up) })
	return attemptSucceeded
}

// stops says whether the program wants no more attempts after one that failed so.
func (s *supervisor) stops(err error) bool {
	return slices.ContainsFunc(s.stopOn, func(target error) bool { return target != nil && errors.Is(err, target) })
}

// hold keeps the session until it is lost, or to be left.
func (s *supervisor) hold(ctx context.Context) outcome {
	var due <-chan time.Time
	if timer := s.nextLook(); timer != nil {
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
		return lookDue
	case <-s.gen.ctx.Done():
		return s.ended(ctx)
	case reply := <-s.conn.moves:
		s.moves = append(s.moves, reply)
		if s.gen.ctx.Err() != nil {
			return s.ended(ctx) // the move is what follows anyway
		}
		return sessionLeaving
	}
}

// ended judges the end of the session.
func (s *supervisor) ended(ctx context.Context) outcome {
	if ctx.Err() != nil {
		return closed
	}
	now, cause := time.Now(), s.gen.cause()
	uptime := now.Sub(s.gen.readyAt)
	s.lost = s.gen.endpoint.Addr()
	s.credit(s.gen, uptime)
	if leaving(cause) && s.mayMove(uptime) {
		s.emit(Event{Kind: EventLeaving, Generation: s.gen.number, Endpoint: s.gen.endpoint, Err: cause})
		return sessionLeaving
	}
	if uptime < minUptime {
		s.flaps++
	}
	if uptime < steadyUptime && !leaving(cause) {
		s.attempter.penalties.Fail(s.lost, now)
	}
	down := Event{Kind: EventLost, Generation: s.gen.number, Endpoint: s.gen.endpoint, Err: cause}
	s.afterwards(func() { s.emit(down) })
	if s.flaps < 2 {
		return sessionLost
	}
	s.failure = cause
	return sessionFlapped
}

// credit is what a session that is over did for the next ones: by how long it was up.
func (s *supervisor) credit(gen *generation, uptime time.Duration) {
	s.ladder.sessionEnded(uptime)
	if uptime >= steadyUptime {
		s.attempter.penalties.Clear(gen.endpoint.Addr())
	}
	if uptime >= minUptime {
		s.flaps = 0
	}
}

// mayMove says whether a client that is asked to leave may go at once: not when it is sent round in circles.
func (s *supervisor) mayMove(uptime time.Duration) bool {
	s.hasty++
	if uptime >= minStay {
		s.hasty = 0
	}
	return s.hasty <= maxHasty
}

// move makes the next generation while the session that is to be left still serves. Nobody waits for jitter: the
// server that drains spreads its clients over time, and who asks for a move wants it now.
func (s *supervisor) move(ctx context.Context) outcome {
	old := s.gen
	if cause := old.cause(); cause != nil && !leaving(cause) {
		return s.ended(ctx)
	} else if cause != nil { // the server wants us to leave
		gen, err := s.attempter.attempt(ctx, errand{lost: s.lost, hurried: true})
		if err != nil && ctx.Err() == nil {
			down := Event{Kind: EventLost, Generation: old.number, Endpoint: old.endpoint, Err: cause}
			s.afterwards(func() { s.emit(down) })
		}
		return s.attempted(ctx, gen, err)
	}
	gen, err := s.attempter.attempt(ctx, errand{stay: old.endpoint.Addr(), hurried: true})
	switch {
	case ctx.Err() == nil && errors.Is(err, errStay) && old.cause() == nil:
		s.answerMoves(nil)
		return sessionKept
	case ctx.Err() == nil && err != nil && old.cause() == nil:
		s.answerMoves(err) // the session that we have is as good as it was
		return sessionKept
	case ctx.Err() == nil && err != nil: // it was lost meanwhile: what comes of that answers the moves
		return s.ended(ctx)
	}
	if err == nil && ctx.Err() == nil {
		s.leave(old, ErrReselected)
	}
	return s.attempted(ctx, gen, err)
}

// leave ends the old session when the next one is there, which is no fault of its server.
func (s *supervisor) leave(old *generation, cause error) {
	s.credit(old, time.Since(old.readyAt))
	s.emit(Event{Kind: EventLeaving, Generation: old.number, Endpoint: old.endpoint, Err: cause})
	old.end(cause)
}

// answerMoves tells those who asked for a move what came of it.
func (s *supervisor) answerMoves(err error) {
	for _, reply := range s.moves {
		reply <- err // it has room for one
	}
	s.moves = nil
}

// backOff waits for the next attempt; a request to move ends the wait.
func (s *supervisor) backOff(ctx context.Context) outcome {
	wait := s.ladder.climb()
	s.emit(Event{Kind: EventBackingOff, Generation: s.number, Wait: wait, Err: s.failure})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return waitEnded
	case reply := <-s.conn.moves:
		s.moves = append(s.moves, reply)
		return waitEnded
	case <-ctx.Done():
		return closed
	}
}

// shutDown releases what the Conn owns besides its session.
func (s *supervisor) shutDown() {
	s.answerMoves(ErrClosed)
	s.conn.cancel(ErrClosed) // also when nobody closed it
	s.leftover.Wait()        // their lives ended with the Conn's
	errs := s.release()
	if s.failure != ErrClosed { //nolint:errorlint // it is set by run, never wrapped
		errs = append([]error{s.failure}, errs...)
	}
	s.emit(Event{Kind: EventClosed, Generation: s.number, Err: errors.Join(errs...)})
	if s.conn.events != nil {
		s.conn.events.end()
	}
}

// release closes what the Conn was made with, and returns what went wrong with that.
func (s *supervisor) release() []error {
	var errs []error
	for _, release := range s.released {
		errs = append(errs, release())
	}
	return errs
}

// emit tells everybody who listens. Nobody can hold it up.
func (s *supervisor) emit(e Event) {
	e.Time = time.Now()
	s.note(e)
	s.conn.remember(e)
	if s.conn.events != nil {
		s.conn.events.put(e)
	}
}

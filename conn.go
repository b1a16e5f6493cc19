// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
)

// defaultDialTimeout bounds Dial when its context has no deadline.
const defaultDialTimeout = 30 * time.Second

// errDialTime is why Dial gave up when nobody set it a deadline.
var errDialTime = fmt.Errorf("gave up after %v: %w", defaultDialTimeout, context.DeadlineExceeded)

// closeLimit is how long Close waits. What has not ended by then waits for code of the program that ignores its context,
// or is the caller itself: a callback may call Close.
const closeLimit = 100 * time.Millisecond

// Conn is a session with one server of a cluster at a time, and the calls that go to it. It is made by Dial or New,
// and must be closed. It is safe for concurrent use.
type Conn struct {
	view   atomic.Pointer[view]
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the loop has ended and everything it started with it

	events   *dispatcher // nil when nobody listens
	progress progress
	moves    chan chan<- error // requests to move, each answered once

	mu     sync.Mutex
	recent []Event // guarded by mu; the last recentEvents
}

var _ grpc.ClientConnInterface = (*Conn)(nil)

// view is what calls see of a Conn: an immutable snapshot that the loop replaces.
type view struct {
	state State
	gen   *generation // the current session; nil when there is none
	// failure is the cause of StateTransientFailure, or of the attempt that runs; nil when nothing has failed.
	failure error
	changed chan struct{} // closed when another view has taken its place
}

// New begins to connect in the background and goes on until Close. It returns an error only when the connection string
// or the options cannot work; it does no I/O of its own, save that it reads the file of certificatePath. Calls wait for
// the first attempt.
func New(connectionString string, opts ...Option) (*Conn, error) {
	cs, err := connstring.Parse(connectionString)
	if err != nil {
		return nil, err
	}
	var cfg config
	for _, o := range opts {
		if o != nil {
			o.apply(&cfg)
		}
	}
	if err := cfg.check(cs); err != nil {
		return nil, fmt.Errorf("evenkeel: %w", err)
	}
	s, err := newSupervisor(cs, &cfg)
	if err != nil {
		return nil, fmt.Errorf("evenkeel: %w", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &Conn{cancel: cancel, done: make(chan struct{}), moves: make(chan chan<- error)}
	c.view.Store(&view{state: StateConnecting, changed: make(chan struct{})})
	if listen := cfg.listener(); listen != nil {
		c.events = newDispatcher(listen)
	}
	s.conn, s.attempter.progress = c, &c.progress
	go func() {
		defer close(c.done)
		s.run(ctx)
	}()
	return c, nil
}

// Dial connects and waits until the session is up or ctx is done; without a deadline in ctx, for 30 s at most. It
// returns at once, with an *AttemptError, after an attempt in which every server failed for a permanent reason such as
// refused credentials or a refused certificate. When ctx is done first the error is an *AttemptError too, with the cause of
// ctx, what failed by then and the step that was going on. When it returns an error there is nothing to close.
func Dial(ctx context.Context, connectionString string, opts ...Option) (*Conn, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, defaultDialTimeout, errDialTime)
		defer cancel()
	}
	c, err := New(connectionString, opts...)
	if err != nil {
		return nil, err
	}
	if err := c.wait(ctx, permanent); err != nil {
		_ = c.Close() // it returns nil
		return nil, err
	}
	return c, nil
}

// permanent says that a failure will not go away by trying again.
func permanent(err error) bool {
	attempt, ok := errors.AsType[*AttemptError](err)
	return ok && attempt.Permanent()
}

// State returns what the Conn is doing now.
func (c *Conn) State() State { return c.view.Load().state }

// Server returns the endpoint of the current session, with Addrs narrowed to the address in use; the zero Endpoint
// when there is no session.
func (c *Conn) Server() discover.Endpoint {
	if g := c.view.Load().gen; g != nil {
		return g.endpoint
	}
	return discover.Endpoint{}
}

// WaitReady waits until a session is up. It returns ErrClosed when the Conn is closed, the *AttemptError on which WithStopOn
// ended it, and otherwise, when ctx is done first, an *AttemptError with the cause of ctx, what failed last and the step that
// is going on.
func (c *Conn) WaitReady(ctx context.Context) error {
	return c.wait(ctx, func(error) bool { return false })
}

// wait is WaitReady that gives up at a failure for which giveUp holds.
func (c *Conn) wait(ctx context.Context, giveUp func(error) bool) error {
	for {
		v := c.view.Load()
		switch {
		case v.state == StateReady:
			return nil
		case v.state == StateShutdown:
			return v.failure
		case v.failure != nil && giveUp(v.failure):
			return v.failure
		}
		select {
		case <-v.changed:
		case <-ctx.Done():
			return c.progress.gaveUp(context.Cause(ctx), c.view.Load().failure)
		}
	}
}

// Close ends the session, the calls on it and everything the Conn started, and waits for that, for 100 ms at most. Only
// code of the program that ignores its context may outlive it: a callback, strategy, resolver or interceptor. It may be
// called from a callback, and again, which does nothing. It returns nil.
func (c *Conn) Close() error {
	c.cancel(ErrClosed)
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	for _, done := range []<-chan struct{}{c.done, c.events.ended()} {
		select {
		case <-done:
		case <-limit.C:
			return nil
		}
	}
	return nil
}

// publish replaces the view and returns the session of the old one.
func (c *Conn) publish(state State, gen *generation, failure error) *generation {
	old := c.view.Swap(&view{state: state, gen: gen, failure: failure, changed: make(chan struct{})})
	close(old.changed)
	return old.gen
}

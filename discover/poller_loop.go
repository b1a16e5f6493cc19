// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// lookup is what a lookup, or a source that pushes, has brought.
type lookup struct {
	endpoints []Endpoint
	err       error
	took      time.Duration

	// What read has found in err. The loop itself never looks into an error of a source.
	class  string
	stale  bool // the endpoints are those of an earlier lookup
	closed bool // the source has ended for good
}

// read looks into the error. That is part of what is caught: an error of a source may be of any type, and the methods of
// a nil pointer in it panic.
func (r *lookup) read() {
	if r.err == nil {
		return
	}
	var seen lookup
	unreadable := caught(func() error {
		_ = r.err.Error() // others will call it
		_, seen.stale = errors.AsType[*StaleError](r.err)
		seen.class, seen.closed = ErrorClass(r.err), errors.Is(r.err, ErrClosed)
		return nil
	})
	if unreadable != nil {
		r.err, r.class = unreadable, ClassPanic
		return
	}
	r.class, r.stale, r.closed = seen.class, seen.stale, seen.closed
}

// pollLoop is the goroutine of a poller and what belongs to it alone.
type pollLoop struct {
	*Poller
	ledger

	schedule schedule
	results  chan lookup // of one, since there is one lookup at a time
	busy     bool        // a lookup has not returned
	overdue  time.Time   // when the lookup under way will have failed; zero when none is, or it has
}

// poll asks the source again and again.
func (l *pollLoop) poll(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			l.hear()
		case result := <-l.results:
			l.busy = false
			l.receive(ctx, result)
		case <-timer.C:
			l.expire(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		timer.Reset(time.Until(l.act(ctx, time.Now())))
	}
}

// hear takes what others have said.
func (l *pollLoop) hear() {
	in := l.take()
	if in.hinted {
		l.schedule.hint()
	}
	if in.fell {
		l.schedule.setUsable(true) // it may have been usable for a moment
		l.schedule.setUsable(false)
	}
	l.schedule.setUsable(!in.unusable)
}

// act begins a lookup when it is time, and returns when there is something to do next.
func (l *pollLoop) act(ctx context.Context, now time.Time) time.Time {
	next := l.schedule.next()
	switch {
	case !l.overdue.IsZero():
		return l.overdue
	case next.After(now):
		return next
	}
	hinted := l.schedule.hinted
	l.schedule.begin(now)
	l.overdue = now.Add(l.config.Timeout + pollerGrace)
	if !l.busy { // else the last one is waited for again, since there is one at a time
		l.busy = true
		l.hung.Go(func() { l.lookUp(ctx, hinted) })
	}
	return l.overdue
}

// receive takes what a lookup brought. One that has been counted as failed already can only make that better.
func (l *pollLoop) receive(ctx context.Context, result lookup) {
	if l.overdue.IsZero() && len(result.endpoints) == 0 {
		return
	}
	l.finish(ctx, result)
}

// expire counts a lookup that has not returned as failed.
func (l *pollLoop) expire(ctx context.Context) {
	now := time.Now()
	if l.overdue.IsZero() || now.Before(l.overdue) {
		return
	}
	l.finish(ctx, lookup{
		err:   &SourceError{Source: sourceName(l.config.Resolver), Kind: ErrTimeout, Err: errHung},
		class: ClassTimeout,
		took:  now.Sub(l.schedule.began),
	})
}

var (
	errHung   = errors.New("the lookup has not returned")
	errExited = errors.New("the resolver has ended the goroutine that asked it")
)

// finish tells what came of a lookup. What ended because the poller is closed is not told.
func (l *pollLoop) finish(ctx context.Context, result lookup) {
	l.overdue = time.Time{}
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	if l.note(now, result) {
		l.schedule.succeed(now, l.random())
	} else {
		l.schedule.fail(now, l.random())
	}
	l.pending.Next = l.schedule.next()
	l.tell(l.pending)
}

// lookUp asks the source once. There is a result in any case, also when the source calls runtime.Goexit, as the FailNow of
// a test does.
func (l *pollLoop) lookUp(ctx context.Context, hinted bool) {
	began := time.Now()
	result := lookup{err: errExited, class: ClassOther}
	defer func() {
		result.took = time.Since(began)
		l.results <- result
	}()
	result = lookUpGuarded(ctx, l.config, hinted)
}

// lookUpGuarded is the edge at which a panic of the source is caught.
func lookUpGuarded(ctx context.Context, config PollerConfig, hinted bool) (result lookup) {
	limited, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	result.err = caught(func() (err error) {
		if hinter, ok := config.Resolver.(Hinter); ok && hinted {
			hinter.ResolveNow()
		}
		result.endpoints, err = config.Resolver.Resolve(limited)
		return err
	})
	result.read()
	return result
}

// PanicError says that a source has panicked.
type PanicError struct {
	// Value is what it panicked with.
	Value any
	// Stack is where.
	Stack []byte
}

// Error shows the value, not the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("the resolver panicked: %v", e.Value) }

// caught calls f and makes an error of a panic.
func caught(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}

// sourceName is what errors call a source that says nothing.
func sourceName(resolver Resolver) string {
	name := fmt.Sprintf("%T", resolver)
	if named, ok := resolver.(fmt.Stringer); ok {
		_ = caught(func() error { // what panics has no name of its own
			name = named.String()
			return nil
		})
	}
	return name
}

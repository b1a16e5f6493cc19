// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"context"
	"sync"
	"time"
)

const (
	// calmAfterFailure is the time between failed requests while a token serves.
	calmAfterFailure = 5 * time.Second
	// holdFailure is for how long calls get the last failure when there is no token, instead of one request each.
	holdFailure = time.Second
	// calmAfterForce is the time between two renewals out of turn.
	calmAfterForce = 3 * time.Second
)

// Bearer puts a token on the calls to one server, and renews it there. It implements credentials.PerRPCCredentials, but
// what it does about refusals needs its interceptors too: use DialOptions.
type Bearer struct {
	source *Source
	place  Place
	life   context.Context //nolint:containedctx // that of the requests, which begin at any time
	end    context.CancelCauseFunc
	group  sync.WaitGroup // the request that is going on

	// mu guards what follows.
	mu      sync.Mutex
	closed  bool
	current *token
	former  *token    // the one before it
	refused uint64    // the number of the last token that the server refused
	forced  time.Time // when that led to a request last
	failed  time.Time // when a request failed last
	failure error     // why
	flight  *flight   // the request that is going on; nil when there is none
}

// flight is a request for a token, for all who wait for it.
type flight struct {
	done  chan struct{} // closed when the rest is set
	token *token
	err   error
}

// Ready waits until there is a token, asking for one where there is none, for 5 s at most. It ends with ctx. The error is a
// *TokenError, ErrClosed, or the context's.
func (b *Bearer) Ready(ctx context.Context) error {
	b.mu.Lock()
	now := time.Now()
	if b.current.serves(now) && b.current.number != b.refused && !b.closed {
		b.mu.Unlock()
		return nil
	}
	f := b.ask()
	b.mu.Unlock()
	_, err := f.wait(ctx)
	return err
}

// Close ends the request that may be going on and waits for it. Calls after it fail. Closing twice is harmless.
func (b *Bearer) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.end(ErrClosed)
	b.group.Wait()
}

// take returns the token for a call.
func (b *Bearer) take(ctx context.Context) (*token, error) {
	b.mu.Lock()
	now := time.Now()
	t, serves := b.current, b.current.serves(now)
	switch {
	case b.closed:
		b.mu.Unlock()
		return nil, ErrClosed
	case serves && t.number != b.refused:
		if t.due(now) && (b.failed.IsZero() || now.Sub(b.failed) >= calmAfterFailure) {
			b.ask()
		}
		b.mu.Unlock()
		return t, nil
	case serves && !b.mayForce(now): // the server will say so again
		b.mu.Unlock()
		return t, nil
	case !serves && b.failure != nil && now.Sub(b.failed) < holdFailure && b.flight == nil:
		err := b.failure
		b.mu.Unlock()
		return nil, err
	}
	if serves {
		b.forced = now
	}
	f := b.ask()
	b.mu.Unlock()
	renewed, err := f.wait(ctx)
	if err != nil && serves && ctx.Err() == nil {
		return t, nil // it may have been one server's mistake
	}
	return renewed, err
}

// renew gets another token than the one of that number, which the server refused.
func (b *Bearer) renew(ctx context.Context, number uint64) error {
	b.mu.Lock()
	now := time.Now()
	b.refused = max(b.refused, number)
	old := b.current
	switch {
	case b.closed:
		b.mu.Unlock()
		return ErrClosed
	case old.serves(now) && old.number > number: // another call has seen to it
		b.mu.Unlock()
		return nil
	case !b.mayForce(now):
		b.mu.Unlock()
		return errTooSoon
	}
	if b.flight == nil {
		b.forced = now
	}
	f := b.ask()
	b.mu.Unlock()
	renewed, err := f.wait(ctx)
	if err == nil && old != nil && renewed.header.reveal() == old.header.reveal() {
		return errSameToken
	}
	return err
}

// note remembers that the server refused a token; the next call renews it.
func (b *Bearer) note(number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = max(b.refused, number)
}

// mayForce says whether a refusal may lead to a request now. The caller holds mu.
func (b *Bearer) mayForce(now time.Time) bool {
	return b.flight != nil || b.forced.IsZero() || now.Sub(b.forced) >= calmAfterForce
}

// ask returns the request that is going on, or begins one. The caller holds mu.
func (b *Bearer) ask() *flight {
	if b.flight != nil {
		return b.flight
	}
	f := &flight{done: make(chan struct{})}
	if b.closed {
		f.err = ErrClosed
		close(f.done)
		return f
	}
	b.flight = f
	b.group.Go(func() {
		ctx, cancel := context.WithTimeout(b.life, fetchLimit)
		defer cancel()
		f.token, f.err = b.source.obtain(ctx, b.place)
		b.land(f)
	})
	return f
}

// land takes over what a request brought.
func (b *Bearer) land(f *flight) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flight = nil
	if b.failure = f.err; f.err == nil {
		b.current, b.former, b.failed = f.token, b.current, time.Time{}
	} else {
		b.failed = time.Now()
	}
	close(f.done)
}

// wait waits for the end of the request. It goes on when ctx ends: others wait for it too.
func (f *flight) wait(ctx context.Context) (*token, error) {
	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"context"
	"slices"
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
	// keptTokens is how many tokens that calls were sent with are remembered at most. One call knows its own besides.
	keptTokens = 16
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
	sent    []*token  // those that calls were sent with and that have not expired, the newest last
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

// take returns the token for a call. It waits only when there is none: one that was refused serves until another one is
// there, because it may have been refused for a reason that other calls do not share.
func (b *Bearer) take(ctx context.Context) (*token, error) {
	b.mu.Lock()
	now := time.Now()
	switch {
	case b.closed:
		b.mu.Unlock()
		return nil, ErrClosed
	case b.current.serves(now):
		defer b.mu.Unlock()
		if b.mayAsk(now) {
			b.ask()
		}
		b.keep(b.current, now)
		return b.current, nil
	case b.failure != nil && now.Sub(b.failed) < holdFailure && b.flight == nil:
		defer b.mu.Unlock()
		return nil, b.failure
	}
	f := b.ask()
	b.mu.Unlock()
	t, err := f.wait(ctx)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.keep(t, time.Now())
	}
	return t, err
}

// mayAsk says whether a call that has a token asks for the next one, for which it does not wait. The caller holds mu.
func (b *Bearer) mayAsk(now time.Time) bool {
	if b.current.number == b.refused && b.mayForce(now) {
		b.forced = now
		return true
	}
	return b.current.due(now) && b.calm(now)
}

// keep remembers that a token goes out. The caller holds mu.
func (b *Bearer) keep(t *token, now time.Time) {
	if slices.Contains(b.sent, t) {
		return
	}
	b.sent = append(slices.DeleteFunc(b.sent, func(old *token) bool { return !old.serves(now) }), t)
	if len(b.sent) > keptTokens {
		b.sent = slices.Delete(b.sent, 0, len(b.sent)-keptTokens)
	}
}

// renew gets another token than the one of that number, which the server refused. It waits for that, as long as ctx and the
// limit of a request allow: only the call that was refused does.
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
	case b.flight == nil && !b.mayForce(now):
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

// note remembers that the server refused a token; the next call asks for another one.
func (b *Bearer) note(number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = max(b.refused, number)
}

// mayForce says whether a refusal may lead to a request of its own now. The caller holds mu.
func (b *Bearer) mayForce(now time.Time) bool {
	return b.flight == nil && b.calm(now) && (b.forced.IsZero() || now.Sub(b.forced) >= calmAfterForce)
}

// calm says that no request has failed of late. The caller holds mu.
func (b *Bearer) calm(now time.Time) bool {
	return b.failed.IsZero() || now.Sub(b.failed) >= calmAfterFailure
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
		b.current, b.failed = f.token, time.Time{}
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

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"sync"
	"time"
)

// patience is a context that ends when a server has had its time to answer. That time runs from the start, but stands
// still while a prober says that the call waits for its turn: a server that was not asked yet is not silent.
//
// It has no deadline to tell, since nobody knows it. Its owner must call end.
type patience struct {
	context.Context //nolint:containedctx // it is one: that of the caller, with less time

	done   chan struct{} // closed when err is set
	unhook func() bool   // from the caller's context
	timer  *time.Timer   // runs while nothing is paused

	mu     sync.Mutex
	err    error         // guarded by mu, as is all below
	left   time.Duration // when the timer was started last
	since  time.Time     // when that was
	paused int           // how many wait for their turn
}

type patienceKey struct{}

// newPatience begins the time of a server, which ends early with ctx.
func newPatience(ctx context.Context, span time.Duration) *patience {
	p := &patience{Context: ctx, done: make(chan struct{}), left: span, since: time.Now()}
	p.mu.Lock() // neither of the two may find the other one unset
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(span, p.runOut)
	p.unhook = context.AfterFunc(ctx, func() { p.finish(ctx.Err()) })
	return p
}

// Done implements context.Context.
func (p *patience) Done() <-chan struct{} { return p.done }

// Err implements context.Context.
func (p *patience) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Value implements context.Context.
func (p *patience) Value(key any) any {
	if key == (patienceKey{}) {
		return p
	}
	return p.Context.Value(key)
}

// end frees what the patience holds.
func (p *patience) end() { p.finish(context.Canceled) }

// spent says that the server has had all of its time.
func (p *patience) spent() bool { return p.Err() == context.DeadlineExceeded } //nolint:errorlint // it is set here

// runOut ends the patience, unless it was paused while the timer fired.
func (p *patience) runOut() {
	p.mu.Lock()
	paused := p.paused > 0
	p.mu.Unlock()
	if !paused {
		p.finish(context.DeadlineExceeded)
	}
}

func (p *patience) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return
	}
	p.err = err
	p.timer.Stop()
	p.unhook()
	close(p.done)
}

// pause stops the time of the patience that ctx comes from, if it comes from one, until resume is called.
func pause(ctx context.Context) (resume func()) {
	p, ok := ctx.Value(patienceKey{}).(*patience)
	if !ok {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused++; p.paused == 1 {
		p.timer.Stop()
		p.left -= time.Since(p.since)
	}
	return p.resume
}

func (p *patience) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused--; p.paused == 0 && p.err == nil {
		p.since = time.Now()
		p.timer.Reset(max(p.left, 0))
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"sync"
	"time"
)

// leaveGrace is how long the last one to leave a flight waits for what it has brought so far: which name server was
// asked, for one. Lookups end with their context, so that this is for a machine that is held up.
const leaveGrace = 50 * time.Millisecond

// process is where the lookups of the process that are under way meet. A thousand channels to one name, or the sessions
// that a server has lost together, ask once.
var process = newFlights() //nolint:gochecknoglobals // sharing between values that know nothing of each other needs a place

// flights are lookups that are under way, by their question.
type flights struct {
	mu      sync.Mutex
	running map[string]*flight // guarded by mu
}

func newFlights() *flights { return &flights{running: make(map[string]*flight)} }

// flight is one lookup and those who wait for it. It has a goroutine of its own, so that nobody who leaves early takes it
// away from the others.
type flight struct {
	cancel  context.CancelFunc
	done    chan struct{} // closed when result and expired are set
	result  any
	expired bool // its time was over

	waiters int // guarded by flights.mu; the flight is cancelled when it becomes 0
}

// share returns what look returns, or what it returned to somebody who asked the same question at the same time, and
// false when ctx, which must have a deadline, has ended before. Its end ends the lookup once nobody else waits for it.
// Results are shared: they must not be written to.
func share[T any](ctx context.Context, f *flights, question string, look func(context.Context) T) (T, bool) {
	for {
		own, joined := f.join(ctx, question, func(ctx context.Context) any { return look(ctx) })
		result, ok := f.wait(ctx, question, own)
		// Who began the lookup may have had less time than who joined it.
		if ok && joined && own.expired && ended(ctx) == nil {
			continue
		}
		value, _ := result.(T)
		return value, ok
	}
}

// join returns the flight of a question, which it starts when there is none.
func (f *flights) join(ctx context.Context, question string, look func(context.Context) any) (own *flight, joined bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if running := f.running[question]; running != nil {
		running.waiters++
		return running, true
	}
	deadline, _ := ctx.Deadline()
	flying, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	own = &flight{cancel: cancel, done: make(chan struct{}), waiters: 1}
	f.running[question] = own
	go func() {
		defer close(own.done)
		defer cancel()
		own.result = look(flying)
		own.expired = ended(flying) != nil
		f.mu.Lock()
		defer f.mu.Unlock()
		f.forgetLocked(question, own)
	}()
	return own, false
}

// wait waits for a flight, or until ctx ends.
func (f *flights) wait(ctx context.Context, question string, own *flight) (any, bool) {
	select {
	case <-own.done:
		return own.result, true
	case <-ctx.Done():
	}
	if !f.leave(question, own) {
		return nil, false
	}
	own.cancel()
	grace := time.NewTimer(leaveGrace)
	defer grace.Stop()
	select {
	case <-own.done:
		return own.result, true
	case <-grace.C:
		return nil, false
	}
}

// leave says whether nobody else waits for the flight. Nobody can join it any more then.
func (f *flights) leave(question string, own *flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	own.waiters--
	if own.waiters > 0 {
		return false
	}
	f.forgetLocked(question, own)
	return true
}

// forgetLocked makes the next one who asks start a flight of its own.
func (f *flights) forgetLocked(question string, own *flight) {
	if f.running[question] == own {
		delete(f.running, question)
	}
}

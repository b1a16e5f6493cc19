// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

// progress is how far the attempt that runs has come, or the one that failed last: what there is to say to somebody who
// waits no longer. It is safe for concurrent use.
type progress struct {
	mu       sync.Mutex
	running  bool              // guarded by mu, as is the rest
	step     Step              // of an attempt that runs
	since    time.Time         // when the step began
	endpoint discover.Endpoint // the server that was selected; zero before StepDial
	failures []*EndpointError
}

// begin is the beginning of an attempt.
func (p *progress) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.failures = true, nil
	p.step, p.since, p.endpoint = StepResolve, time.Now(), discover.Endpoint{}
}

// at is the beginning of a step. It does nothing outside an attempt: a session that is moved lacks nothing.
func (p *progress) at(step Step, endpoint discover.Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		p.step, p.since, p.endpoint = step, time.Now(), endpoint
	}
}

// failed notes a server that could not be used.
func (p *progress) failed(failure *EndpointError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, failure)
}

// end is the end of an attempt. What failed in it stays until the next one begins, for those who have not seen its error.
func (p *progress) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	if err == nil {
		p.failures = nil
	}
}

// gaveUp is the error of who waits no longer for a session, because of why. It names each server that failed in the attempt
// that runs, or in the one before it, and the step that is not done. Last is the error of the one before; nil when there is
// none.
func (p *progress) gaveUp(why, last error) *AttemptError {
	before, ok := errors.AsType[*AttemptError](last)
	if ok {
		last = before.Err
	} else {
		before = &AttemptError{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := &AttemptError{Err: why}
	for _, f := range before.Failures {
		if !names(p.failures, f.Endpoint) {
			e.Failures = append(e.Failures, f)
		}
	}
	e.Failures = append(e.Failures, p.failures...)
	undone := &undoneError{after: time.Since(p.since)}
	switch {
	case p.running && p.endpoint.Host != "":
		if i := slices.IndexFunc(e.Failures, func(f *EndpointError) bool {
			return f.Endpoint.Addr() == p.endpoint.Addr() && f.Step == p.step
		}); i < 0 { // otherwise it is known what becomes of it
			e.Failures = append(e.Failures, &EndpointError{Endpoint: p.endpoint, Step: p.step, Err: undone})
		}
	case last != nil:
		e.Err = fmt.Errorf("%w: %w", why, last)
	case p.running && p.step == StepResolve:
		e.Err = fmt.Errorf("%w: %s the servers: %w", why, p.step, undone)
	case p.running:
		e.Err = fmt.Errorf("%w: %s a server: %w", why, p.step, undone)
	}
	return e
}

// names says whether a failure is that of the endpoint.
func names(failures []*EndpointError, endpoint discover.Endpoint) bool {
	return slices.ContainsFunc(failures, func(f *EndpointError) bool { return f.Endpoint.Addr() == endpoint.Addr() })
}

// undoneError is a step that was going on when the time was up.
type undoneError struct{ after time.Duration }

func (e *undoneError) Error() string {
	return fmt.Sprintf("not done after %v", e.after.Round(time.Millisecond))
}

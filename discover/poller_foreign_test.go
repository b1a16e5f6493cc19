// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

// mute is an error that can do nothing.
type mute struct{}

func (mute) Error() string { panic("no words") }

// knot is an error that panics when it is compared.
type knot struct{}

func (knot) Error() string { return "knot" }

func (knot) Is(error) bool { panic("no comparison") }

// foreignErrors are errors that a source of a user may return by mistake, and the class that a poller gives them.
func foreignErrors() map[string]foreignError {
	return map[string]foreignError{
		"a nil lookup error":           {(*discover.LookupError)(nil), discover.ClassPanic},
		"a nil stale error":            {(*discover.StaleError)(nil), discover.ClassPanic},
		"a nil source error":           {(*discover.SourceError)(nil), discover.ClassPanic},
		"a nil partial error":          {(*discover.PartialError)(nil), discover.ClassPanic},
		"a nil error of another":       {fmt.Errorf("asked: %w", (*discover.LookupError)(nil)), discover.ClassPanic},
		"an error without words":       {mute{}, discover.ClassPanic},
		"an error that cannot compare": {knot{}, discover.ClassPanic},
		"an empty lookup error":        {&discover.LookupError{}, discover.ClassOther},
		"a stale error without cause":  {&discover.StaleError{}, discover.ClassOther},
	}
}

type foreignError struct {
	err   error
	class string
}

func TestPollerSurvivesWhateverErrorASourceReturns(t *testing.T) {
	t.Parallel()
	for name, test := range foreignErrors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			poll(t, discover.PollerConfig{}, sequence(test.err, []string{"a"}, test.err), func(p *polled) {
				p.lookups(0)
				failed := p.told.last(t)
				if failed.Failures != 1 || failed.Class != test.class || failed.Err.Error() == "" {
					t.Errorf("got %+v, want one failure of class %s that can be read", failed, test.class)
				}
				p.after(time.Second)
				if got := p.told.last(t); got.Err != nil || len(got.Endpoints) != 1 {
					t.Errorf("got %+v, want the endpoint that came after", got)
				}
				p.after(30 * time.Second)
				if got := p.told.last(t); got.Failures != 1 || len(got.Endpoints) != 1 {
					t.Errorf("got %+v, want a failure, and the endpoint kept", got)
				}
			})
		})
	}
}

func TestEndpointsServeWhateverErrorComesWithThem(t *testing.T) {
	t.Parallel()
	answer := func(context.Context, int) ([]discover.Endpoint, error) {
		return set("a"), (*discover.PartialError)(nil)
	}
	poll(t, discover.PollerConfig{}, answer, func(p *polled) {
		if got := p.told.last(t); got.Failures != 0 || len(got.Endpoints) != 1 || got.Class != discover.ClassPanic {
			t.Errorf("got %+v, want the endpoint and no failure", got)
		}
	})
}

func TestPollerSurvivesWhateverErrorIsPushed(t *testing.T) {
	t.Parallel()
	for name, test := range foreignErrors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := &stream{watch: func(ctx context.Context, n int, changed func([]discover.Endpoint, error)) error {
				if n == 1 {
					changed(nil, test.err)
					return test.err
				}
				changed(set("a"), nil)
				<-ctx.Done()
				return ctx.Err()
			}}
			watched(t, source, func(p *polled) {
				if got := p.told.last(t); got.Err == nil || got.Class != test.class {
					t.Errorf("got %+v, want a failure of class %s", got, test.class)
				}
				p.after(2 * time.Second)
				if got := p.told.last(t); got.Err != nil || len(got.Endpoints) != 1 {
					t.Errorf("got %+v, want the endpoint of the next watch", got)
				}
			})
		})
	}
}

func TestSourceThatEndsItsGoroutineIsAskedAgain(t *testing.T) {
	t.Parallel()
	poll(t, discover.PollerConfig{}, func(_ context.Context, n int) ([]discover.Endpoint, error) {
		if n == 1 {
			runtime.Goexit()
		}
		return set("a"), nil
	}, func(p *polled) {
		if got := p.told.last(t); got.Err == nil || !strings.Contains(got.Err.Error(), "ended the goroutine") || got.Failures != 1 {
			t.Errorf("got %+v, want a failure that says what happened", got)
		}
		p.after(time.Second)
		p.lookups(0, 1)
		if got := p.told.last(t); got.Err != nil || len(got.Endpoints) != 1 {
			t.Errorf("got %+v, want the endpoint", got)
		}
	})
}

func TestSourceThatEndsItsGoroutineIsWatchedAgain(t *testing.T) {
	t.Parallel()
	source := &stream{watch: func(ctx context.Context, n int, changed func([]discover.Endpoint, error)) error {
		if n == 1 {
			runtime.Goexit()
		}
		changed(set("a"), nil)
		<-ctx.Done()
		return ctx.Err()
	}}
	source.hint = runtime.Goexit
	watched(t, source, func(p *polled) {
		if got := p.told.last(t); got.Err == nil || got.Class != discover.ClassOther {
			t.Errorf("got %+v, want a failure", got)
		}
		p.after(2 * time.Second)
		for want := range int32(2) { // a hint that ends its goroutine does not keep the next one away
			p.ResolveNow()
			p.after(10 * time.Second)
			if got := source.hints.Load(); got != want+1 {
				t.Errorf("got %d hints, want %d", got, want+1)
			}
		}
		if got := p.told.last(t); got.Err != nil || len(got.Endpoints) != 1 {
			t.Errorf("got %+v, want the endpoint", got)
		}
	})
}

// shy is a source that cannot say its name, and hangs.
type shy struct{}

func (shy) Resolve(ctx context.Context) ([]discover.Endpoint, error) {
	<-ctx.Done()
	pass(time.Second) // longer than the poller waits
	return nil, ctx.Err()
}

func (shy) String() string { panic("no name") }

func TestSourceWithoutANameIsCalledByItsType(t *testing.T) {
	t.Parallel()
	poll(t, discover.PollerConfig{Resolver: shy{}, Timeout: time.Second}, nil, func(p *polled) {
		p.after(1500 * time.Millisecond)
		got := p.told.last(t)
		if !errors.Is(got.Err, discover.ErrTimeout) || !strings.Contains(got.Err.Error(), "discover_test.shy") {
			t.Errorf("got %v, want a timeout of the type", got.Err)
		}
		p.Close()
		p.after(time.Second)
	})
}

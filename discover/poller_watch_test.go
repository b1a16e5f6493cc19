// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

// stream is a source that pushes; each Watch of it is what the test makes of it.
type stream struct {
	watch   func(ctx context.Context, n int, changed func([]discover.Endpoint, error)) error
	hint    func()
	watches atomic.Int32
	hints   atomic.Int32
	closed  atomic.Int32
}

func (*stream) Resolve(context.Context) ([]discover.Endpoint, error) {
	return nil, errors.New("a source that pushes was asked")
}

func (s *stream) Watch(ctx context.Context, changed func([]discover.Endpoint, error)) error {
	return s.watch(ctx, int(s.watches.Add(1)), changed)
}

func (s *stream) ResolveNow() {
	s.hints.Add(1)
	if s.hint != nil {
		s.hint()
	}
}

func (s *stream) Close() error {
	s.closed.Add(1)
	return nil
}

// watched runs a test in a bubble with a poller of a source that pushes.
func watched(t *testing.T, source *stream, test func(p *polled)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &polled{T: t, told: new(heard), start: time.Now()}
		p.Poller = discover.StartPollerForTest(discover.PollerConfig{Resolver: source, OnResult: p.told.take}, noLuck)
		synctest.Wait()
		test(p)
		p.Close()
		if got := source.closed.Load(); got != 1 {
			t.Errorf("the source was closed %d times, want once", got)
		}
	})
}

func TestPollerTellsWhatASourcePushes(t *testing.T) {
	t.Parallel()
	source := &stream{watch: func(ctx context.Context, _ int, changed func([]discover.Endpoint, error)) error {
		changed(set("a"), nil)
		time.Sleep(time.Minute)
		changed(set("a", "b"), nil)
		time.Sleep(time.Minute)
		changed(nil, errSource)
		time.Sleep(time.Minute)
		changed(set("b"), &discover.StaleError{Cause: errSource})
		<-ctx.Done()
		return ctx.Err()
	}}
	watched(t, source, func(p *polled) {
		p.after(time.Hour)
		var shown []string
		for _, r := range p.told.all() {
			line := ""
			for _, e := range r.Endpoints {
				line += e.Host
			}
			if r.Err != nil {
				line += "!"
			}
			if r.Changed {
				line += "*"
			}
			shown = append(shown, line)
			if !r.Next.IsZero() || r.Took != 0 {
				t.Errorf("a push is told with a next lookup at %v and took %v", r.Next, r.Took)
			}
		}
		// What a source has kept is no newer than what we have.
		if want := []string{"a*", "ab*", "ab!", "ab!"}; !slices.Equal(shown, want) {
			t.Errorf("told %q, want %q", shown, want)
		}
		if got := source.watches.Load(); got != 1 {
			t.Errorf("watched %d times, want once", got)
		}
	})
}

func TestPollerTakesAStaleSetWhenItHasNone(t *testing.T) {
	t.Parallel()
	poll(t, discover.PollerConfig{}, func(context.Context, int) ([]discover.Endpoint, error) {
		return set("a"), &discover.StaleError{Cause: discover.ErrTimeout}
	}, func(p *polled) {
		if got := p.told.last(t); len(got.Endpoints) != 1 || got.Failures != 1 || got.Class != "timeout" {
			t.Errorf("got %+v, want the endpoint and a failure", got)
		}
	})
}

func TestPollerStartsAWatchAgain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() error{
		"that ended": func() error { return nil },
		"that fails": func() error { return errSource },
		"that panics": func() error {
			panic("out of order")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var starts []time.Duration
			start := time.Time{}
			source := &stream{watch: func(ctx context.Context, n int, changed func([]discover.Endpoint, error)) error {
				if start.IsZero() {
					start = time.Now()
				}
				starts = append(starts, time.Since(start))
				switch n {
				case 4:
					changed(set("a"), nil) // starts the backoff anew
					return end()
				case 6:
					changed(set("b"), nil)
					<-ctx.Done()
					return ctx.Err()
				default:
					return end()
				}
			}}
			watched(t, source, func(p *polled) {
				p.after(time.Hour)
				want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 8 * time.Second, 10 * time.Second}
				if !slices.Equal(starts, want) {
					t.Errorf("watched at %v, want %v", starts, want)
				}
				if got := p.told.last(t); got.Err != nil || got.Endpoints[0].Host != "b" {
					t.Errorf("in the end told %+v", got)
				}
				if got := p.told.all()[0]; got.Err == nil || got.Class == "" {
					t.Errorf("the end of a watch was told as %+v", got)
				}
			})
		})
	}
}

func TestPollerLeavesAClosedSourceAlone(t *testing.T) {
	t.Parallel()
	source := &stream{watch: func(_ context.Context, _ int, changed func([]discover.Endpoint, error)) error {
		changed(set("a"), nil)
		return discover.ErrClosed
	}}
	watched(t, source, func(p *polled) {
		p.ResolveNow()
		p.after(time.Hour)
		if got := source.watches.Load(); got != 1 {
			t.Errorf("watched %d times, want once", got)
		}
		if got := p.told.last(t); !errors.Is(got.Err, discover.ErrClosed) || got.Class != "closed" || len(got.Endpoints) != 1 {
			t.Errorf("told %+v, want its end, and the last set", got)
		}
	})
}

func TestPollerHandsHintsOnAtTheFloor(t *testing.T) {
	t.Parallel()
	source := &stream{watch: func(ctx context.Context, _ int, changed func([]discover.Endpoint, error)) error {
		changed(set("a"), nil)
		<-ctx.Done()
		return ctx.Err()
	}}
	watched(t, source, func(p *polled) {
		hints := func(want int32) {
			p.Helper()
			if got := source.hints.Load(); got != want {
				t.Errorf("%d hints after %v, want %d", got, time.Since(p.start), want)
			}
		}
		p.after(time.Second)
		for range 10 {
			p.ResolveNow()
		}
		synctest.Wait()
		hints(0)
		p.after(4 * time.Second)
		hints(1)
		p.after(time.Minute)
		hints(1)
		p.ResolveNow()
		synctest.Wait()
		hints(2)
		p.SetUsable(false)
		p.after(time.Second)
		hints(3)
	})
}

// A source may block where it should not: nothing else does.
func TestPollerIsNotHeldUpByAHintThatBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		push := make(chan struct{})
		source := &stream{
			hint: func() { <-gate },
			watch: func(ctx context.Context, _ int, changed func([]discover.Endpoint, error)) error {
				changed(set("a"), nil)
				<-push
				changed(set("b"), nil)
				<-ctx.Done()
				return ctx.Err()
			},
		}
		results := new(heard)
		p := discover.StartPollerForTest(discover.PollerConfig{Resolver: source, OnResult: results.take}, noLuck)
		for range 3 {
			time.Sleep(10 * time.Second)
			p.ResolveNow()
		}
		close(push)
		synctest.Wait()
		if got := results.last(t); got.Endpoints[0].Host != "b" || source.hints.Load() != 1 {
			t.Errorf("told %+v with %d hints under way", got, source.hints.Load())
		}
		began := time.Now()
		p.Close()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("closing took %v", took)
		}
		close(gate)
		synctest.Wait()
	})
}

// hintable is a source that is asked and takes hints.
type hintable struct {
	scripted
	hints atomic.Int32
}

func (h *hintable) ResolveNow() { h.hints.Add(1) }

func TestPollerHintsASourceThatItAsks(t *testing.T) {
	t.Parallel()
	source := &hintable{scripted: scripted{answer: steady("a")}}
	poll(t, discover.PollerConfig{Resolver: source}, nil, func(p *polled) {
		p.after(7 * time.Second)
		p.ResolveNow()
		p.after(20 * time.Second)
		if got := source.hints.Load(); got != 1 {
			t.Errorf("%d hints, want one before the lookup that was asked for", got)
		}
	})
}

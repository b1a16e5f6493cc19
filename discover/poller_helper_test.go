// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

// scripted is a source that answers as it is told, and notes when it was asked.
type scripted struct {
	answer func(ctx context.Context, n int) ([]discover.Endpoint, error)

	mu    sync.Mutex
	asked []time.Time
}

func (s *scripted) Resolve(ctx context.Context) ([]discover.Endpoint, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	n := len(s.asked)
	s.mu.Unlock()
	return s.answer(ctx, n)
}

func (s *scripted) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.asked...)
}

// heard collects the results of a poller.
type heard struct {
	mu      sync.Mutex
	results []discover.PollResult
}

func (r *heard) take(result discover.PollResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, result)
}

func (r *heard) all() []discover.PollResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]discover.PollResult(nil), r.results...)
}

func (r *heard) last(t *testing.T) discover.PollResult {
	t.Helper()
	all := r.all()
	if len(all) == 0 {
		t.Fatal("the poller has told nothing")
	}
	return all[len(all)-1]
}

// polled is a poller in a bubble.
type polled struct {
	*testing.T
	*discover.Poller

	source *scripted
	told   *heard
	start  time.Time
}

// noLuck makes every wait as long as it may be, but for the first, which it makes the floor.
func noLuck() float64 { return 0 }

func set(hosts ...string) []discover.Endpoint {
	endpoints := make([]discover.Endpoint, 0, len(hosts))
	for _, host := range hosts {
		endpoints = append(endpoints, discover.Endpoint{Host: host, Port: 1})
	}
	return endpoints
}

var errSource = errors.New("the source is broken")

// poll runs a test in a bubble with a poller that is closed at the end.
func poll(
	t *testing.T, config discover.PollerConfig, answer func(ctx context.Context, n int) ([]discover.Endpoint, error),
	test func(p *polled),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &polled{T: t, source: &scripted{answer: answer}, told: new(heard), start: time.Now()}
		if config.Resolver == nil {
			config.Resolver = p.source
		}
		config.OnResult = p.told.take
		p.Poller = discover.StartPollerForTest(config, noLuck)
		synctest.Wait()
		test(p)
		p.Close()
	})
}

// after lets time pass.
func (p *polled) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// lookups checks when the source was asked, in seconds from the start.
func (p *polled) lookups(want ...float64) {
	p.Helper()
	var got []float64
	for _, at := range p.source.times() {
		got = append(got, at.Sub(p.start).Seconds())
	}
	if len(got) != len(want) {
		p.Fatalf("looked at %v s, want %v s", got, want)
	}
	for i := range got {
		if diff := got[i] - want[i]; diff > 1e-6 || diff < -1e-6 {
			p.Fatalf("looked at %v s, want %v s", got, want)
		}
	}
}

// steady answers with one set for ever.
func steady(hosts ...string) func(context.Context, int) ([]discover.Endpoint, error) {
	return func(context.Context, int) ([]discover.Endpoint, error) { return set(hosts...), nil }
}

// sequence gives one answer after the other, the last one for ever; an error, or hosts.
func sequence(answers ...any) func(context.Context, int) ([]discover.Endpoint, error) {
	return func(_ context.Context, n int) ([]discover.Endpoint, error) {
		switch answer := answers[min(n, len(answers))-1].(type) {
		case error:
			return nil, answer
		case []string:
			return set(answer...), nil
		default:
			panic("neither error nor hosts")
		}
	}
}

// pass lets time pass in a bubble, where it takes none.
func pass(d time.Duration) { time.Sleep(d) }

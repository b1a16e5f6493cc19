// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

func TestPollerLooksAtIntervals(t *testing.T) {
	t.Parallel()
	poll(t, discover.PollerConfig{}, steady("a"), func(p *polled) {
		p.lookups(0)
		p.after(66 * time.Second)
		p.lookups(0, 5, 35, 65)
		if got := p.told.last(t); got.Next.Sub(p.start) != 95*time.Second || got.At.Sub(p.start) != 65*time.Second {
			t.Errorf("told at %v that the next lookup is at %v", got.At, got.Next)
		}
	})
}

func TestPollerBacksOffAndResets(t *testing.T) {
	t.Parallel()
	bad := discover.ErrServerFailed
	poll(t, discover.PollerConfig{Interval: 10 * time.Second, MaxInterval: 60 * time.Second},
		sequence([]string{"a"}, bad, bad, bad, bad, []string{"a"}), func(p *polled) {
			p.after(5 * time.Minute)
			// 5, then 20, 40, 60 and 60 after the failures, then the interval
			p.lookups(0, 5, 25, 65, 125, 185, 195, 205, 215, 225, 235, 245, 255, 265, 275, 285, 295)
			var failures []int
			for _, result := range p.told.all()[:6] {
				failures = append(failures, result.Failures)
			}
			if want := []int{0, 1, 2, 3, 4, 0}; !slices.Equal(failures, want) {
				t.Errorf("failures in a row %v, want %v", failures, want)
			}
		})
}

// thanos: the first lookup fails, and nothing is looked up until the next tick (scenario 21).
func TestPollerRepeatsFastUntilTheFirstSet(t *testing.T) {
	t.Parallel()
	poll(t, discover.PollerConfig{}, sequence(discover.ErrTimeout, discover.ErrTimeout, discover.ErrTimeout, []string{"a"}), func(p *polled) {
		p.after(8 * time.Second)
		p.lookups(0, 1, 3, 7)
		if first := p.told.all()[0]; len(first.Endpoints) > 0 || !errors.Is(first.Err, discover.ErrTimeout) || first.Changed {
			t.Errorf("the first result is %+v, want an error without endpoints", first)
		}
		if got := p.told.last(t); !got.Changed || got.Added != 1 || len(got.Endpoints) != 1 {
			t.Errorf("the first set was told as %+v", got)
		}
	})
}

func TestPollerServesHintsWhenTheFloorAllows(t *testing.T) {
	t.Parallel()
	poll(t, discover.PollerConfig{}, steady("a"), func(p *polled) {
		p.after(6 * time.Second) // lookups at 0 and 5
		for range 20 {
			p.ResolveNow()
		}
		p.after(time.Second)
		p.lookups(0, 5)
		p.after(4 * time.Second)
		p.lookups(0, 5, 10) // twenty hints inside the floor are one lookup, at its end
		p.after(20 * time.Second)
		p.ResolveNow()
		synctest.Wait()
		p.lookups(0, 5, 10, 31) // behind the floor a hint is served at once
		p.after(25 * time.Second)
		p.lookups(0, 5, 10, 31) // and the interval begins anew
		p.after(5 * time.Second)
		p.lookups(0, 5, 10, 31, 61)
	})
}

func TestPollerKeepsAHintThatComesDuringALookup(t *testing.T) {
	t.Parallel()
	slow := func(context.Context, int) ([]discover.Endpoint, error) {
		time.Sleep(2 * time.Second)
		return set("a"), nil
	}
	poll(t, discover.PollerConfig{}, slow, func(p *polled) {
		p.after(8 * time.Second) // the second lookup began at 7
		p.ResolveNow()
		p.after(10 * time.Second)
		p.lookups(0, 7, 12)
	})
}

// grpc-go holds its floor of 30 s also when nothing is left (scenarios 4 and 10).
func TestPollerLooksWithinASecondWhenNothingIsUsable(t *testing.T) {
	t.Parallel()
	poll(t, discover.PollerConfig{}, steady("a"), func(p *polled) {
		p.after(5500 * time.Millisecond)
		p.SetUsable(false)
		p.after(time.Second)
		p.lookups(0, 5, 6)
		for range 30 { // hints keep coming as connects fail
			p.ResolveNow()
			p.after(100 * time.Millisecond)
		}
		p.lookups(0, 5, 6, 7, 8, 9)
		p.SetUsable(true)
		p.ResolveNow()
		p.after(2 * time.Second)
		p.lookups(0, 5, 6, 7, 8, 9)
	})
}

func TestPollerRepeatsFailuresFastWhenNothingIsUsable(t *testing.T) {
	t.Parallel()
	poll(t, discover.PollerConfig{MaxInterval: 30 * time.Second}, sequence([]string{"a"}, errSource), func(p *polled) {
		p.after(5100 * time.Millisecond) // failed at 5
		p.SetUsable(false)
		p.after(95 * time.Second)
		p.lookups(0, 5, 6, 7, 9, 13, 21, 37, 67, 97)
	})
}

// SetUsable may be called faster than the loop looks.
func TestPollerSeesAShortLossOfEverything(t *testing.T) {
	t.Parallel()
	poll(t, discover.PollerConfig{}, steady("a"), func(p *polled) {
		p.after(6 * time.Second)
		p.SetUsable(false)
		p.SetUsable(true)
		synctest.Wait()
		p.after(5 * time.Second)
		p.lookups(0, 5, 10) // the loss was a hint, and the floor is the usual one again
	})
}

func TestPollerSurvivesAPanic(t *testing.T) {
	t.Parallel()
	answer := func(_ context.Context, n int) ([]discover.Endpoint, error) {
		if n == 2 {
			panic("out of order")
		}
		return set("a"), nil
	}
	poll(t, discover.PollerConfig{}, answer, func(p *polled) {
		p.after(5 * time.Second)
		got := p.told.last(t)
		panicked, ok := errors.AsType[*discover.PanicError](got.Err)
		if !ok || got.Class != "panic" || len(got.Endpoints) != 1 || !strings.Contains(got.Err.Error(), "out of order") {
			t.Fatalf("got %+v, want the panic and the last good set", got)
		}
		if !strings.Contains(string(panicked.Stack), "TestPollerSurvivesAPanic") {
			t.Error("the stack does not show where")
		}
		p.after(60 * time.Second)
		p.lookups(0, 5, 65)
	})
}

func TestPollerHasOneLookupAtATimeAlsoWhenOneHangs(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var under, most atomic.Int32
	answer := func(_ context.Context, n int) ([]discover.Endpoint, error) {
		most.Store(max(most.Load(), under.Add(1)))
		defer under.Add(-1)
		if n == 2 {
			<-gate // it does not heed its context
		}
		return set("a", fmt.Sprint(n)), nil
	}
	synctest.Test(t, func(t *testing.T) {
		gate = make(chan struct{})
		p := &polled{T: t, source: &scripted{answer: answer}, told: new(heard), start: time.Now()}
		p.Poller = discover.StartPollerForTest(discover.PollerConfig{Resolver: p.source, OnResult: p.told.take}, noLuck)
		defer p.Close()
		p.after(16 * time.Second) // begun at 5, given up at 15.1
		if got := p.told.last(t); got.Class != "timeout" || got.Failures != 1 || len(got.Endpoints) != 2 {
			t.Errorf("a hung lookup is told as %+v", got)
		}
		p.after(80 * time.Second) // due again 60 s later, and given up again
		if got := p.told.last(t); got.Class != "timeout" || got.Failures != 2 {
			t.Errorf("a lookup that still hangs is told as %+v", got)
		}
		p.lookups(0, 5)
		close(gate)
		synctest.Wait()
		if got := p.told.last(t); got.Err != nil || got.Added != 1 || got.Removed != 1 {
			t.Errorf("what it brought in the end is told as %+v", got)
		}
		p.after(30 * time.Second)
		if got := len(p.source.times()); got != 3 {
			t.Errorf("asked %d times, want 3", got)
		}
		if most.Load() != 1 {
			t.Errorf("%d lookups at once", most.Load())
		}
	})
}

// A lookup that ends with its context fails once, not as hung as well.
func TestPollerCountsALookupThatTimesOutOnce(t *testing.T) {
	t.Parallel()
	answer := func(ctx context.Context, n int) ([]discover.Endpoint, error) {
		if n == 2 {
			<-ctx.Done()
			return nil, &discover.LookupError{Kind: discover.ErrTimeout, Err: ctx.Err()}
		}
		return set("a"), nil
	}
	poll(t, discover.PollerConfig{Timeout: 3 * time.Second}, answer, func(p *polled) {
		p.after(20 * time.Second)
		results := p.told.all()
		if len(results) != 2 || results[1].Failures != 1 || results[1].Took != 3*time.Second {
			t.Errorf("got %+v, want one failure after 3 s", results)
		}
	})
}

func TestPollerCloseDoesNotWaitForAHungLookup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		source := &scripted{answer: func(context.Context, int) ([]discover.Endpoint, error) {
			<-gate
			return set("a"), nil
		}}
		results := new(heard)
		p := discover.StartPollerForTest(discover.PollerConfig{Resolver: source, OnResult: results.take}, noLuck)
		synctest.Wait()
		began := time.Now()
		p.Close()
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("closing took %v, want 100 ms", took)
		}
		close(gate)
		synctest.Wait()
		if got := results.all(); len(got) > 0 {
			t.Errorf("told after Close: %+v", got)
		}
	})
}

func TestPollerCloseWaitsForALookupThatHeedsItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var returned atomic.Bool
		source := &scripted{answer: func(ctx context.Context, _ int) ([]discover.Endpoint, error) {
			<-ctx.Done()
			time.Sleep(time.Millisecond)
			returned.Store(true)
			return nil, ctx.Err()
		}}
		results := new(heard)
		p := discover.StartPollerForTest(discover.PollerConfig{Resolver: source, OnResult: results.take}, noLuck)
		synctest.Wait()
		began := time.Now()
		p.Close()
		p.Close()
		if took := time.Since(began); took != time.Millisecond || !returned.Load() {
			t.Errorf("closing took %v, the lookup had returned: %v", took, returned.Load())
		}
		p.ResolveNow() // harmless
		p.SetUsable(false)
		if got := results.all(); len(got) > 0 {
			t.Errorf("told of its own end: %+v", got)
		}
	})
}

func TestPollerMayBeClosedFromItsOwnGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p *discover.Poller
		started, calls := make(chan struct{}), 0
		closed := make(chan struct{})
		p = discover.StartPollerForTest(discover.PollerConfig{
			Resolver: &scripted{answer: steady("a")},
			OnResult: func(discover.PollResult) {
				<-started
				calls++
				p.ResolveNow()
				p.Close()
				close(closed)
			},
		}, noLuck)
		close(started)
		<-closed
		synctest.Wait()
		time.Sleep(time.Hour)
		if calls != 1 {
			t.Errorf("told %d times, want once", calls)
		}
	})
}

// Clients that start together must not ask together for ever (scenario 18).
func TestTwoHundredPollersSpreadTheirLookups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pollers, seconds = 200, 600
		var mu sync.Mutex
		buckets := make([]int, seconds+1)
		start := time.Now()
		source := &scripted{answer: func(context.Context, int) ([]discover.Endpoint, error) {
			mu.Lock()
			defer mu.Unlock()
			buckets[int(time.Since(start)/time.Second)]++
			return set("a"), nil
		}}
		random := rand.New(rand.NewPCG(1, 2))
		guarded := func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return random.Float64()
		}
		var all []*discover.Poller
		for range pollers {
			all = append(all, discover.StartPollerForTest(discover.PollerConfig{Resolver: source, OnResult: func(discover.PollResult) {}}, guarded))
		}
		time.Sleep(seconds * time.Second)
		for _, p := range all {
			p.Close()
		}
		// The first lookup of each is at once, and none follows within the floor.
		total, most := 0, 0
		for _, n := range buckets[5:seconds] {
			total, most = total+n, max(most, n)
		}
		mean := float64(total) / (seconds - 5)
		if buckets[0] != pollers || mean < pollers/30. || mean > pollers/24.+1 {
			t.Fatalf("%d lookups at once, then %.1f in a second; the test is wrong", buckets[0], mean)
		}
		if float64(most) > 3*mean {
			t.Errorf("up to %d lookups in a second, want 3 times the mean of %.1f at most", most, mean)
		}
		t.Logf("mean %.1f, most %d in a second", mean, most)
	})
}

func TestPollerConfigIsChecked(t *testing.T) {
	t.Parallel()
	fine := discover.PollerConfig{Resolver: discover.Static(), OnResult: func(discover.PollResult) {}}
	for _, test := range []struct {
		name string
		set  func(c *discover.PollerConfig)
		want []string
	}{
		{"the zero waits", func(*discover.PollerConfig) {}, nil},
		{"a short interval brings the floor down", func(c *discover.PollerConfig) { c.Interval = time.Second }, nil},
		{"a long interval lifts the maximum", func(c *discover.PollerConfig) { c.Interval = time.Hour }, nil},
		{"no resolver", func(c *discover.PollerConfig) { c.Resolver = nil }, []string{"needs a resolver"}},
		{"nobody listens", func(c *discover.PollerConfig) { c.OnResult = nil }, []string{"takes its results"}},
		{
			"negative waits", func(c *discover.PollerConfig) { c.Interval, c.MinInterval, c.MaxInterval, c.Timeout = -1, -1, -1, -1 },
			[]string{"Interval of a poller is negative", "MinInterval", "MaxInterval", "Timeout"},
		},
		{
			"the floor above the interval", func(c *discover.PollerConfig) { c.Interval, c.MinInterval = time.Second, 2*time.Second },
			[]string{"MinInterval 2s of a poller is longer than its Interval 1s"},
		},
		{"the floor above the default interval", func(c *discover.PollerConfig) { c.MinInterval = time.Minute }, []string{"Interval 30s"}},
		{"the maximum below the default interval", func(c *discover.PollerConfig) { c.MaxInterval = time.Second }, []string{"MaxInterval 1s"}},
		{
			"waits that are most likely of another unit",
			func(c *discover.PollerConfig) { c.Interval, c.MinInterval, c.MaxInterval = 30, 5, 300 },
			[]string{"the Interval 30ns of a poller is shorter than 10ms", "the MinInterval 5ns", "the MaxInterval 300ns"},
		},
		{"an interval of 1 ns", func(c *discover.PollerConfig) { c.Interval = 1 }, []string{"the Interval 1ns"}},
		{"the least waits", func(c *discover.PollerConfig) {
			c.Interval, c.MinInterval, c.MaxInterval = discover.LeastInterval, discover.LeastInterval, discover.LeastInterval
		}, nil},
		{
			"all at once", func(c *discover.PollerConfig) { *c = discover.PollerConfig{Interval: -1} },
			[]string{"needs a resolver", "takes its results", "negative"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config := fine
			test.set(&config)
			err := config.Validate()
			if (err == nil) != (len(test.want) == 0) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want it to contain %q", err, want)
				}
			}
			p, newErr := discover.NewPoller(config)
			if (newErr == nil) != (err == nil) {
				t.Errorf("NewPoller says %v, Validate %v", newErr, err)
			}
			if p != nil {
				p.Close()
			}
		})
	}
}

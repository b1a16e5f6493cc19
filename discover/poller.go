// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// pollerGrace bounds how long Close waits for what may hang.
const pollerGrace = 100 * time.Millisecond

// Poller keeps looking for the endpoints of one source and tells what it finds.
//
// It looks at once, and then every Interval. Jitter only shortens: the first wait after endpoints were found is anything
// from MinInterval to Interval, each later one is up to 20 % shorter. Each failure in a row doubles the wait, up to
// MaxInterval, and a success resets it. Waits are counted from the end of a lookup. There is one lookup at a time; one
// that does not return in time has failed, and the next one begins when it has returned.
//
// A set that was found stays the one that serves until another one is found: an error, a name that does not exist and an
// empty answer leave it as it is, and an endpoint that comes without its addresses keeps those that it had. Hints are
// honoured, but not more often than every MinInterval: one that comes sooner is kept until then, and several are one.
// While no endpoint is usable, because none was ever found or because SetUsable said so, the floor is 1 s and failed
// lookups are repeated after 1 s, doubling to MaxInterval.
//
// A source that is a [Watcher] is not polled: it tells its changes. When its Watch ends it is started again, after 1 s,
// doubling to MaxInterval; one that has returned ErrClosed has ended for good. A source that panics, ends its goroutine or
// returns an error that cannot be read has failed, and is asked again as after any other failure.
//
// A Poller is safe for concurrent use. The caller closes it.
type Poller struct {
	config PollerConfig
	random func() float64 // of [0, 1); used by the loop alone
	cancel context.CancelFunc
	done   chan struct{}  // closed when the loop has ended
	hung   sync.WaitGroup // calls of the source
	close  func()         // shutDown, once
	wake   chan struct{}  // of one: there is something new in inputs

	mu     sync.Mutex
	inputs inputs // guarded by mu
}

// inputs is what has been told to the poller since its loop looked last.
type inputs struct {
	hinted   bool
	unusable bool
	fell     bool // unusable has become true
}

// NewPoller starts a poller. The error says what is wrong with the configuration; nothing is started then.
func NewPoller(config PollerConfig) (*Poller, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return startPoller(config.withDefaults(), rand.Float64), nil
}

func startPoller(config PollerConfig, random func() float64) *Poller {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Poller{
		config: config, random: random, cancel: cancel,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	p.close = sync.OnceFunc(p.shutDown)
	loop := &pollLoop{
		Poller: p, ledger: ledger{tell: config.OnResult},
		schedule: schedule{pace: pace{
			interval: config.Interval, maxInterval: config.MaxInterval, minInterval: config.MinInterval,
		}},
		results: make(chan lookup, 1),
	}
	go func() {
		defer close(p.done)
		if watcher, ok := config.Resolver.(Watcher); ok {
			loop.watch(ctx, watcher)
			return
		}
		loop.poll(ctx)
	}()
	return p
}

// ResolveNow asks for a lookup. It never blocks. Inside the floor it is served when that ends; one that comes while a
// lookup is under way asks for another one.
func (p *Poller) ResolveNow() {
	p.input(func(in *inputs) { in.hinted = true })
}

// SetUsable says whether any of the endpoints is of use; until it is called they are. When the last one has gone the
// poller looks as soon as the floor of 1 s allows, as if hinted.
func (p *Poller) SetUsable(usable bool) {
	p.input(func(in *inputs) {
		in.fell = in.fell || !usable && !in.unusable
		in.unusable = !usable
	})
}

func (p *Poller) input(change func(*inputs)) {
	p.mu.Lock()
	change(&p.inputs)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // the loop has not yet seen the last one
	}
}

// take returns the inputs and forgets what happens once.
func (p *Poller) take() inputs {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.inputs
	p.inputs.hinted, p.inputs.fell = false, false
	return in
}

// Close stops the poller and closes its source. It waits for both, but for 100 ms at most: a lookup, a Watch or a Close
// that does not heed its context lives on until it returns by itself. OnResult is not called any more afterwards, save
// that a call under way may still last. Calls after the first wait for the first.
func (p *Poller) Close() { p.close() }

func (p *Poller) shutDown() {
	p.cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-p.done
		if closer, ok := p.config.Resolver.(io.Closer); ok {
			_ = caught(closer.Close) // there is nobody to tell
		}
		p.hung.Wait()
	}()
	timer := time.NewTimer(pollerGrace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

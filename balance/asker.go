// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

// asker asks servers for one client, through a prober that it does not trust to end in time. It is used by one goroutine
// at a time.
type asker struct {
	prober  Prober
	timeout time.Duration
	rand    *rand.Rand
	silent  map[string]time.Time // Addr of the endpoints that were silent when they were waited for last, and when

	life func() (context.Context, context.CancelFunc) // makes contexts that end with the asker
	end  context.CancelFunc
}

// newAsker returns an asker whose end must be called. A timeout of 0 means the default.
func newAsker(prober Prober, timeout time.Duration) asker {
	if timeout == 0 {
		timeout = defaultProbeTimeout
	}
	a := asker{prober: prober, timeout: timeout, rand: newRand(), silent: make(map[string]time.Time)}
	a.life, a.end = newLife()
	return a
}

// newLife returns what makes contexts that end when end is called.
func newLife() (life func() (context.Context, context.CancelFunc), end context.CancelFunc) {
	ctx, end := context.WithCancel(context.Background())
	return func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }, end
}

// probe asks candidates and returns what they said and when, in their order, when the round is over. It returns nil when
// ctx is done before.
func (a *asker) probe(ctx context.Context, candidates []discover.Endpoint) ([]Observation, []time.Time) {
	askCtx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	answers := a.ask(askCtx, candidates)
	overdue := time.NewTimer(a.timeout + lateProber)
	defer overdue.Stop()

	began := time.Now()
	round := newRound(candidates, a.silent, began)
	for !round.over() {
		select {
		case one := <-answers:
			round.add(one)
		case <-overdue.C:
			round.giveUp()
		case <-ctx.Done():
			return nil, nil // a round cut short says nothing about silence
		}
	}
	a.silent = round.silence(a.silent, began)
	return round.result(), round.times
}

// ask starts the probes. Each candidate gets exactly one answer, which fits into the channel: nobody needs to wait for
// probes that the round no longer waits for. They end with ctx, as the contract of Prober says.
func (a *asker) ask(ctx context.Context, candidates []discover.Endpoint) <-chan answer {
	answers := make(chan answer, len(candidates))
	order := a.rand.Perm(len(candidates)) // so that it is not always the last ones that miss their turn
	endpoints := make([]discover.Endpoint, len(candidates))
	copy(endpoints, candidates) // a probe may outlive Select, which must not keep the candidates
	var next atomic.Int64
	for range min(len(candidates), maxAsked) {
		go func() {
			for n := next.Add(1) - 1; n < int64(len(order)); n = next.Add(1) - 1 {
				answers <- a.askOne(ctx, order[n], endpoints[order[n]])
			}
		}()
	}
	return answers
}

func (a *asker) askOne(ctx context.Context, index int, endpoint discover.Endpoint) answer {
	if ctx.Err() != nil {
		return answer{index: index, err: countError(endpoint, errNotAsked)}
	}
	began := time.Now()
	count, err := a.prober.Count(ctx, endpoint)
	if err == nil && count.Connections < 0 {
		err = countError(endpoint, ErrNotCount)
	}
	now := time.Now()
	if count.RTT <= 0 {
		count.RTT = now.Sub(began) // a prober that does not tell
	}
	return answer{index: index, count: count, err: err, at: now, late: err != nil && ctx.Err() != nil}
}

func countError(endpoint discover.Endpoint, cause error) error {
	return &ProbeError{Endpoint: endpoint, Op: opCount, Err: cause}
}

// reserve does not trust a prober to end with its context: Select has to.
func (a *asker) reserve(ctx context.Context, winner discover.Endpoint, request ReserveRequest) (Reservation, error) {
	type reply struct {
		reservation Reservation
		err         error
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	replies := make(chan reply, 1)
	go func() {
		reservation, err := a.prober.Reserve(ctx, winner, request)
		replies <- reply{reservation, err}
	}()
	select {
	case r := <-replies:
		return r.reservation, r.err
	case <-ctx.Done():
		return Reservation{}, fmt.Errorf("reserve at %s: %w", winner.Addr(), ctx.Err())
	}
}

// release gives a reservation up, and waits for nothing: what is not released ends by itself. It ends with the asker.
func (a *asker) release(endpoint discover.Endpoint, id string) {
	if id == "" {
		return
	}
	ctx, cancel := a.life()
	go func() {
		defer cancel()
		_ = a.giveBack(ctx, endpoint, id)
	}()
}

// giveBack gives a reservation up, where the prober can.
func (a *asker) giveBack(ctx context.Context, endpoint discover.Endpoint, id string) error {
	releaser, ok := a.prober.(Releaser)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	return releaser.Release(ctx, endpoint, id)
}

// wait waits, or returns the error of a context that ends before.
func wait(ctx context.Context, span time.Duration) error {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

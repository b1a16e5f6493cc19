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
	askCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	answers := a.ask(askCtx, candidates, began)
	round := newRound(candidates, a.silent, began)
	for !round.over() {
		select {
		case one := <-answers:
			round.add(one)
		case <-ctx.Done():
			return nil, nil // a round cut short says nothing about silence
		}
	}
	a.silent = round.silence(a.silent, began)
	return round.result(), round.times
}

// ask starts the probes. Each candidate gets exactly one answer, which fits into the channel: nobody needs to wait for
// probes that the round no longer waits for. They end with ctx, as the contract of Prober says.
func (a *asker) ask(ctx context.Context, candidates []discover.Endpoint, began time.Time) <-chan answer {
	answers := make(chan answer, len(candidates))
	order := a.rand.Perm(len(candidates)) // so that it is not always the last ones that miss their turn
	endpoints := make([]discover.Endpoint, len(candidates))
	copy(endpoints, candidates) // a probe may outlive Select, which must not keep the candidates
	var next atomic.Int64
	for range min(len(candidates), maxAsked) {
		go func() {
			left := a.timeout
			for n := next.Add(1) - 1; n < int64(len(order)); n = next.Add(1) - 1 {
				answers <- a.askOne(ctx, order[n], endpoints[order[n]], left)
				left = a.timeout - time.Since(began) // the later ones have what is left of the round
			}
		}()
	}
	return answers
}

// askOne asks a candidate, which has the time to answer. Who had less than the others and did not make it is not silent.
func (a *asker) askOne(ctx context.Context, index int, endpoint discover.Endpoint, left time.Duration) answer {
	if ctx.Err() != nil || left <= 0 {
		return answer{index: index, err: countError(endpoint, errNotAsked)}
	}
	began := time.Now()
	p := newPatience(ctx, left)
	defer p.end()
	answers := make(chan answer, 1)
	go func() {
		count, err := a.prober.Count(p, endpoint)
		answers <- answer{index: index, count: count, err: err}
	}()
	one := p.await(answers, answer{index: index, err: countError(endpoint, errNoAnswer)})
	one.at = time.Now()
	one.late = one.err != nil && p.spent() && left == a.timeout
	if one.err == nil && one.count.Connections < 0 {
		one.err = countError(endpoint, ErrNotCount)
	}
	one.count.settle(one.at.Sub(began))
	return one
}

// await returns the answer of a prober, or otherwise where the prober does not end when it should.
func (p *patience) await(answers <-chan answer, otherwise answer) answer {
	select {
	case one := <-answers:
		return one
	case <-p.done:
	}
	timer := time.NewTimer(lateProber)
	defer timer.Stop()
	select {
	case one := <-answers:
		return one
	case <-timer.C:
		return otherwise
	}
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
	p := newPatience(ctx, a.timeout)
	defer p.end()
	replies := make(chan reply, 1)
	go func() {
		reservation, err := a.prober.Reserve(p, winner, request)
		replies <- reply{reservation, err}
	}()
	select {
	case r := <-replies:
		r.reservation.settle()
		return r.reservation, r.err
	case <-p.done:
		return Reservation{}, fmt.Errorf("reserve at %s: %w", winner.Addr(), p.Err())
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
	p := newPatience(ctx, a.timeout)
	defer p.end()
	return releaser.Release(p, endpoint, id)
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

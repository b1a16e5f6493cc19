// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

// NoJitter switches the random wait of least-connections off: LeastConnectionsConfig{MaxJitter: NoJitter}. Any negative
// duration does.
const NoJitter time.Duration = -1

const (
	defaultMaxJitter    = 250 * time.Millisecond
	defaultProbeTimeout = 2 * time.Second
	longestSetting      = time.Minute
)

// LeastConnectionsConfig configures NewLeastConnections. The zero value has the defaults, which suit a stock cluster.
type LeastConnectionsConfig struct {
	// MaxJitter is the upper end of the random wait before every probe round, which spreads clients that start or lose
	// their server together. Zero means 250 ms, negative (NoJitter) means no wait; one minute is the most.
	MaxJitter time.Duration
	// Timeout is how long a candidate has to answer the probe, and how long the winner has to answer the reservation.
	// Zero means 2 s; one minute is the most.
	Timeout time.Duration
	// Classic keeps the selection to the form that all Chronicle clients have: every candidate is probed once, and the
	// minimum wins. It is the only form so far; set it to keep it.
	Classic bool
	// Prober asks the servers. Nil means an HTTPS prober of the strategy's own with the zero ProberConfig, which the
	// strategy's Close closes. One that is given stays the caller's, and can serve several strategies.
	Prober Prober
}

// Validate reports all faults of the configuration, joined.
func (c LeastConnectionsConfig) Validate() error {
	var errs []error
	if c.MaxJitter > longestSetting {
		errs = append(errs, fmt.Errorf("balance: jitter of up to %v, at most %v is allowed", c.MaxJitter, longestSetting))
	}
	if c.Timeout < 0 || c.Timeout > longestSetting {
		errs = append(errs, fmt.Errorf("balance: probe timeout of %v, it must lie between 0 and %v", c.Timeout, longestSetting))
	}
	return errors.Join(errs...)
}

// NewLeastConnections returns a strategy that picks the server with the fewest connections.
//
// A single candidate is the answer without a wait, a probe or a reservation. Otherwise Select waits a random part of
// MaxJitter, asks all candidates at once, and takes the one with the lowest (connections+1)/weight, ties broken at
// random; equal or all-zero weights make that the fewest connections. A candidate that answers badly or not in time
// ranks behind all others; when no candidate has answered one is drawn at random by weight. Then the winner is asked
// for a reservation, best effort, also when it did not answer its probe, as the other Chronicle clients do.
//
// A candidate that was silent is not waited for during the next 30 s: its answer counts when it comes before those of the
// others. It is waited for when no other candidate has answered, so that a round does not end with nothing while
// somebody may still speak up.
//
// Select returns the context's error when the context ends before the winner is known. The strategy implements
// io.Closer; Close ends the strategy's own prober, and does nothing when one was given. It is used by one goroutine at a
// time.
func NewLeastConnections(config LeastConnectionsConfig) (Strategy, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	lc := &leastConnections{
		maxJitter: config.MaxJitter,
		timeout:   config.Timeout,
		prober:    config.Prober,
		rand:      newRand(),
		silent:    make(map[string]time.Time),
	}
	if lc.maxJitter == 0 {
		lc.maxJitter = defaultMaxJitter
	}
	if lc.timeout == 0 {
		lc.timeout = defaultProbeTimeout
	}
	if lc.prober == nil {
		own, err := NewProber(ProberConfig{})
		if err != nil {
			return nil, err
		}
		lc.prober, lc.own = own, own
	}
	return lc, nil
}

type leastConnections struct {
	maxJitter time.Duration // negative: no wait
	timeout   time.Duration
	prober    Prober
	own       io.Closer // the prober, when it is the strategy's own
	rand      *rand.Rand
	silent    map[string]time.Time // Addr of the endpoints that were silent when they were waited for last, and when
}

var _ io.Closer = (*leastConnections)(nil)

// Close implements io.Closer.
func (lc *leastConnections) Close() error {
	if lc.own == nil {
		return nil
	}
	return lc.own.Close()
}

// Select implements Strategy.
func (lc *leastConnections) Select(ctx context.Context, candidates []discover.Endpoint) (Selection, error) {
	switch len(candidates) {
	case 0:
		return Selection{}, ErrNoCandidates
	case 1:
		return Selection{Endpoint: candidates[0]}, nil
	}
	if err := lc.jitter(ctx); err != nil {
		return Selection{}, fmt.Errorf("wait before probing: %w", err)
	}
	observations := lc.probe(ctx, candidates)
	if err := ctx.Err(); err != nil {
		return Selection{}, fmt.Errorf("probe %d endpoints: %w", len(candidates), err)
	}
	winner := pickLeast(observations, lc.rand)
	if winner == none {
		winner = pickRandom(candidates, lc.rand)
	}
	selection := Selection{Endpoint: candidates[winner], Observations: observations, Waited: true}
	if addr := observations[winner].Count.Addr; addr.IsValid() {
		selection.Endpoint.Addrs = []netip.AddrPort{addr}
	}
	if ReservationWanted(ctx) {
		selection.Reservation, selection.ReserveErr = lc.reserve(ctx, selection.Endpoint)
	}
	return selection, nil
}

// jitter waits, or returns the error of a context that ends before.
func (lc *leastConnections) jitter(ctx context.Context) error {
	if lc.maxJitter < 0 || !JitterWanted(ctx) {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Duration(lc.rand.Int64N(int64(lc.maxJitter))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reserve does not trust a prober to end with its context: Select has to.
func (lc *leastConnections) reserve(ctx context.Context, winner discover.Endpoint) (Reservation, error) {
	type reply struct {
		reservation Reservation
		err         error
	}
	ctx, cancel := context.WithTimeout(ctx, lc.timeout)
	defer cancel()
	replies := make(chan reply, 1)
	go func() {
		reservation, err := lc.prober.Reserve(ctx, winner, ReserveRequest{})
		replies <- reply{reservation, err}
	}()
	select {
	case r := <-replies:
		return r.reservation, r.err
	case <-ctx.Done():
		return Reservation{}, fmt.Errorf("reserve at %s: %w", winner.Addr(), ctx.Err())
	}
}

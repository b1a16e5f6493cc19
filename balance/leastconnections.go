// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/decide"
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
	// Timeout is how long a candidate has to answer the probe, and how long the winner has to answer the reservation, from
	// when an HTTPProber sends them. Zero means 2 s; one minute is the most.
	Timeout time.Duration
	// Classic keeps the selection to the form that all Chronicle clients have, to the letter: every candidate is probed
	// once, the minimum wins, and the reservation is the stock one.
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

// NewLeastConnections returns a strategy that picks the server with the fewest connections, also where many clients do so
// at once.
//
// A single candidate is the answer without a wait, a probe or a reservation. Otherwise Select waits a random part of
// MaxJitter and asks for counts. While few decide at once it takes the candidate with the lowest (connections+1)/weight,
// ties broken at random; equal or all-zero weights make that the fewest connections. Counts are a round trip old when they
// are used, and in a crowd everybody would take the same minimum: where more than one other client decides within a round
// trip, the pick is drawn in proportion to how far the candidates stand below the level that the crowd will fill.
//
// How many decide at once is told by servers of ours, and seen from others by asking them twice, a few tens of
// milliseconds apart. Of more than 8 candidates 8 drawn at random are asked, and the others only when there is no crowd.
// With servers of ours the reservation has a bound, and is tried elsewhere when the count has grown beyond it; and in a
// crowd the pick is corrected once, a random time later. Docs/balancing.md tells what that brings and costs. NoJitter
// switches off the random times, the correction with them.
//
// A candidate that answers badly or not in time ranks behind all others; when no candidate has answered one is drawn at
// random by weight. Then the winner is asked for a reservation, best effort, also when it did not answer its probe, as the
// other Chronicle clients do. Where the context wants no reservation ([WithoutReservation]) the selection is the classic
// one.
//
// A candidate that was silent is not waited for during the next 30 s: its answer counts when it comes before those of the
// others. It is waited for when no other candidate has answered, so that a round does not end with nothing while
// somebody may still speak up.
//
// Select returns the context's error when the context ends before the winner is known. The strategy implements
// io.Closer; Close ends the strategy's own prober, and does nothing with one that was given. It is used by one goroutine at
// a time.
func NewLeastConnections(config LeastConnectionsConfig) (Strategy, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	lc := &leastConnections{maxJitter: config.MaxJitter, classic: config.Classic}
	if lc.maxJitter == 0 {
		lc.maxJitter = defaultMaxJitter
	}
	if config.Prober == nil {
		own, err := NewProber(ProberConfig{})
		if err != nil {
			return nil, err
		}
		config.Prober, lc.own = own, own
	}
	lc.asker = newAsker(config.Prober, config.Timeout)
	return lc, nil
}

type leastConnections struct {
	asker
	maxJitter time.Duration // negative: no wait
	classic   bool
	own       io.Closer // the prober, when it is the strategy's own
}

var (
	_ io.Closer = (*leastConnections)(nil)
	_ Releaser  = (*leastConnections)(nil)
)

// Close implements io.Closer.
func (lc *leastConnections) Close() error {
	lc.end()
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
	if err := ctx.Err(); err != nil {
		return Selection{}, fmt.Errorf("wait before probing: %w", err)
	}
	_, releases := lc.prober.(Releaser)
	config := decide.Config{
		Weights: make([]uint16, len(candidates)),
		Reserve: ReservationWanted(ctx), Release: releases, Classic: lc.classic,
	}
	if lc.maxJitter > 0 && JitterWanted(ctx) {
		config.MaxJitter = lc.maxJitter
	}
	for i := range candidates {
		config.Weights[i] = candidates[i].Weight
	}
	machine := decide.New(lc.rand)
	return newChoice(&lc.asker, machine, candidates, time.Now()).run(ctx, machine.Begin(config))
}

// Release implements Releaser: for a pick that could not be used.
func (lc *leastConnections) Release(ctx context.Context, endpoint discover.Endpoint, id string) error {
	return lc.giveBack(ctx, endpoint, id)
}

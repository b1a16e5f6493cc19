// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/evenkeel-go/evenkeel/contract"
)

// Drain moves the clients elsewhere, as the first step of an orderly end; there is no way back.
//
// From now on the count, reservations and /health answer 503, gRPC health says NOT_SERVING, and a new Connect is refused
// at once. The Connect streams that are open are ended one by one, in random order and evenly over DrainPeriod, the first
// one now, with a status and a trailer that tell the client to move. All other calls are served as before.
//
// Drain returns nil when no client is registered any more; their running calls may go on, and whoever serves them waits
// for those. When ctx is done before, the clients that were not told yet are told at once and an error with the cause of
// ctx is returned. Calling Drain again waits for the same end.
func (r *Registry) Drain(ctx context.Context) error {
	if r.beginDrain() {
		r.health.Shutdown()
		r.tellToMove(ctx)
	}
	select {
	case <-r.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain: not left: %s: %w", r.leftOver(), context.Cause(ctx))
	}
}

// leftOver says how many clients are there, and where some of them come from.
func (r *Registry) leftOver() string {
	left := r.clients.all()
	var addrs []string
	for _, c := range left[:min(len(left), maxNamed)] {
		addrs = append(addrs, c.from.String())
	}
	if len(left) == 0 {
		return "nobody any more"
	}
	return plural(len(left), "client") + " (" + someOf(addrs, len(left)) + ")"
}

// beginDrain reports whether this is the call that begins it.
func (r *Registry) beginDrain() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.advanceLocked(phaseDraining) {
		return false
	}
	r.noteEmptyLocked()
	return true
}

// noteEmptyLocked tells those who wait for the end of a drain that no client is left: none comes any more.
func (r *Registry) noteEmptyLocked() {
	if r.connected > 0 || r.phase() == phaseServing {
		return
	}
	select {
	case <-r.empty:
	default:
		close(r.empty)
	}
}

// tellToMove ends the Connect streams, each at its own point in time: a client that is told late by a busy machine makes
// no other one late.
func (r *Registry) tellToMove(ctx context.Context) {
	all := r.clients.all() // none is added any more, since connect looks at the phase under mu
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	begin := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, c := range all {
		after := time.Duration(float64(r.config.DrainPeriod) * (float64(i) / float64(len(all))))
		timer.Reset(time.Until(begin.Add(after)))
		select {
		case <-timer.C:
		case <-ctx.Done(): // as it is for all that follow
		}
		c.end(contract.ReasonDraining)
	}
}

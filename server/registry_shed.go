// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evenkeel-go/evenkeel/contract"
)

// Why no streams, or no more of them, are shed.
var (
	// ErrDraining is returned by Shed on a registry that drains or is closed: all of its clients are leaving anyway.
	ErrDraining = errors.New("the server is draining: all clients are sent away")
	// ErrShedding is returned by Shed while another Shed is under way.
	ErrShedding = errors.New("clients are being shed already")
)

// Shed ends the Connect streams of n clients, so that they connect elsewhere: a fleet of stock clients, which do not move by
// themselves, is evened out so when each server sheds what it has more than its share. The streams are ended one by one and
// evenly over the time, the first one now, those that have been connected for longest first: a client that was just moved here
// is the last to be moved again. Each ends with a status that stock clients take for "connect again", and a trailer by which
// our own ones make their next session before they let go of this one.
//
// It returns how many streams it has ended when it is done. That is n, unless fewer clients were there. A time of 0 or less
// ends them all at once. When the registry begins to drain or is closed it returns with ErrDraining, and with ErrShedding,
// at once, while another Shed runs.
func (r *Registry) Shed(n int, over time.Duration) (int, error) {
	return r.ShedContext(context.Background(), n, over)
}

// ShedContext is Shed that ends no more streams once ctx is done; the error then has its cause.
func (r *Registry) ShedContext(ctx context.Context, n int, over time.Duration) (int, error) {
	return r.shed(ctx, shedding{n: n, over: over, progress: func(int) error { return nil }})
}

// shedding is what is to be shed.
type shedding struct {
	n    int
	over time.Duration
	// progress is called after each stream with how many were ended so far. Its error ends the shedding.
	progress func(told int) error
}

func (r *Registry) shed(ctx context.Context, s shedding) (told int, err error) {
	select {
	case r.shedding <- struct{}{}:
		defer func() { <-r.shedding }()
	default:
		return 0, ErrShedding
	}
	if r.phase() != phaseServing {
		return 0, ErrDraining
	}
	all := r.clients.all()
	slices.SortFunc(all, func(a, b *client) int { return cmp.Compare(a.since, b.since) })
	n, begin := min(s.n, len(all)), time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, c := range all {
		if told >= n {
			break
		}
		after := time.Duration(float64(s.over) * (float64(told) / float64(n)))
		timer.Reset(time.Until(begin.Add(after)))
		select {
		case <-timer.C:
		case <-r.leaving:
		case <-ctx.Done():
		}
		// Where several are due at once, select takes any.
		if r.phase() != phaseServing {
			return told, ErrDraining
		}
		if ctx.Err() != nil {
			return told, fmt.Errorf("shed: %d of %d streams were ended: %w", told, n, context.Cause(ctx))
		}
		// One that has left by itself, or was replaced, is no longer here to be sent away.
		if r.clients.get(c.id) != c.beat || !c.end(contract.ReasonShed) {
			continue
		}
		told++
		r.tallies.shed.Add(1)
		if err := s.progress(told); err != nil {
			return told, err
		}
	}
	return told, nil
}

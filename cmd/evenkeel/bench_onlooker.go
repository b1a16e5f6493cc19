// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// onlooker sees what the clients of a fleet ask.
type onlooker struct {
	mu      sync.Mutex
	seen    sighting      // guarded by mu; without age and spread
	ages    time.Duration // guarded by mu; of the counts of all first reservations together
	counted []time.Time   // guarded by mu; when those were answered
}

// over returns what stands between a client and its prober.
func (o *onlooker) over(p balance.Prober) balance.Prober {
	return &watchedProber{Prober: p, onlooker: o}
}

// sighting is what the clients did, all together.
type sighting struct {
	requests, probes, reservations   int64 // with releases; without
	failedProbes, failedReservations int64
	age                              time.Duration // of counts when a reservation upon them is made, on average
	spread                           time.Duration // within which all clients have had their counts
}

// sum sums up. The spread is that of the middle nine tenths, as wide as all would be.
func (o *onlooker) sum() sighting {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.seen
	n := len(o.counted)
	if n == 0 {
		return all
	}
	all.age = o.ages / time.Duration(n)
	slices.SortFunc(o.counted, time.Time.Compare)
	const outside = 20 // one of so many on either side
	first, last := n/outside, n-1-n/outside
	if last > first {
		all.spread = o.counted[last].Sub(o.counted[first]) * time.Duration(n) / time.Duration(last-first+1)
	}
	return all
}

// failing says that so much failed that the clients did not do what they are to be measured at.
func (s *sighting) failing() bool {
	const tolerable = 100 // one of so many
	return tolerable*s.failedProbes > s.probes || tolerable*s.failedReservations > s.reservations
}

// watchedProber is the prober of one client. Its clients make no two rounds of probes at a time.
type watchedProber struct {
	balance.Prober
	onlooker *onlooker

	mu       sync.Mutex
	underWay int           // guarded by mu; probes
	began    time.Time     // guarded by mu; of the last round
	answered time.Duration // guarded by mu; when its answers came, after it began, together
	answers  int           // guarded by mu; how many those are
	reserved bool          // guarded by mu
}

// Count implements balance.Prober.
func (p *watchedProber) Count(ctx context.Context, endpoint discover.Endpoint) (balance.Count, error) {
	p.mu.Lock()
	if p.underWay == 0 {
		p.began, p.answered, p.answers = time.Now(), 0, 0
	}
	p.underWay++
	p.mu.Unlock()
	count, err := p.Prober.Count(ctx, endpoint)
	p.onlooker.asked(func(seen *sighting) {
		seen.probes++
		seen.failedProbes += failure(ctx, err)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underWay--
	if err == nil {
		p.answered += time.Since(p.began)
		p.answers++
	}
	return count, err
}

// Reserve implements balance.Prober.
func (p *watchedProber) Reserve(ctx context.Context, endpoint discover.Endpoint, request balance.ReserveRequest) (balance.Reservation, error) {
	made, err := p.Prober.Reserve(ctx, endpoint, request)
	p.onlooker.asked(func(seen *sighting) {
		seen.reservations++
		seen.failedReservations += failure(ctx, err)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && !p.reserved && p.answers > 0 {
		// Both answers took the same way back, so this is what lay between the two at the server.
		p.onlooker.decided(p.began.Add(p.answered / time.Duration(p.answers)))
	}
	p.reserved = true
	return made, err
}

// Release implements balance.Releaser.
func (p *watchedProber) Release(ctx context.Context, endpoint discover.Endpoint, id string) error {
	p.onlooker.asked(func(*sighting) {})
	return p.Prober.(balance.Releaser).Release(ctx, endpoint, id)
}

// failure is 1 for a request that failed, unless it was the client who did not wait for the answer.
func failure(ctx context.Context, err error) int64 {
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return 0
	}
	return 1
}

// asked notes a request, and what kind it was.
func (o *onlooker) asked(note func(seen *sighting)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen.requests++
	note(&o.seen)
}

// decided notes that a client has reserved upon counts that were answered at a point in time.
func (o *onlooker) decided(counted time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ages += time.Since(counted)
	o.counted = append(o.counted, counted)
}

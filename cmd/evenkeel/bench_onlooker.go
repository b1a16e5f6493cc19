// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// onlooker sees what the clients of a fleet ask.
type onlooker struct {
	mu       sync.Mutex
	requests int64         // guarded by mu
	ages     time.Duration // guarded by mu; of the counts of all first reservations together
	counted  []time.Time   // guarded by mu; when those were answered
}

// over returns what stands between a client and its prober.
func (o *onlooker) over(p balance.Prober) balance.Prober {
	return &watchedProber{Prober: p, onlooker: o}
}

// sighting is what the clients did, all together.
type sighting struct {
	requests int64
	age      time.Duration // of counts when a reservation upon them is made, on average
	spread   time.Duration // within which all clients have had their counts
}

// sum sums up. The spread is that of the middle nine tenths, as wide as all would be.
func (o *onlooker) sum() sighting {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := sighting{requests: o.requests}
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
	p.onlooker.asked()
	p.mu.Lock()
	if p.underWay == 0 {
		p.began, p.answered, p.answers = time.Now(), 0, 0
	}
	p.underWay++
	p.mu.Unlock()
	count, err := p.Prober.Count(ctx, endpoint)
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
	p.onlooker.asked()
	made, err := p.Prober.Reserve(ctx, endpoint, request)
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
	p.onlooker.asked()
	return p.Prober.(balance.Releaser).Release(ctx, endpoint, id)
}

func (o *onlooker) asked() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
}

// decided notes that a client has reserved upon counts that were answered at a point in time.
func (o *onlooker) decided(counted time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ages += time.Since(counted)
	o.counted = append(o.counted, counted)
}

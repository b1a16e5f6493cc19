// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"crypto/rand"
	"time"
)

// verdict is what became of a request to reserve.
type verdict int

const (
	reserved verdict = iota
	tooMany
	notServing
	boundReached
)

// wish is a request to reserve.
type wish struct {
	from source
	// identify asks for an id.
	identify bool
	// bound is the count that must not have been reached; negative where there is none.
	bound int
}

// outcome is what became of it.
type outcome struct {
	verdict verdict
	wait    time.Duration // with tooMany: when it is worth asking again
	id      string
	count   int // with reserved and boundReached
}

// reserve makes a reservation, or says why not.
func (r *Registry) reserve(w wish) outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase() != phaseServing {
		return outcome{verdict: notServing}
	}
	now := r.now()
	if !r.limiter.allow(w.from, r.start.Add(now)) {
		r.tallies.unreserved.Add(1)
		return outcome{verdict: tooMany}
	}
	r.reservations.expire(now)
	defer r.publishLocked()
	if count := r.countLocked(); w.bound >= 0 && count >= w.bound {
		return outcome{verdict: boundReached, count: count}
	}
	o := outcome{verdict: reserved}
	if w.identify {
		o.id = rand.Text() // 128 bits at least
	}
	wait, ok := r.reservations.add(w.from, o.id, now)
	if !ok {
		r.tallies.unreserved.Add(1)
		return outcome{verdict: tooMany, wait: wait}
	}
	r.arrivals.Add(now)
	o.count = r.countLocked()
	return o
}

// release gives the reservation with the id up. That there is none is as good.
func (r *Registry) release(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.reservations.expire(now)
	if taken := r.reservations.take(id); taken != nil {
		r.arrivals.Withdraw(taken.made, now) // nobody came, or somebody did elsewhere and counts there
	}
	r.publishLocked()
}

// takeUpLocked drops the reservation that stands for a client that has come, and reports whether there was one: the one
// with the id that it tells, else the oldest of its source that has none.
func (r *Registry) takeUpLocked(from source, id string) bool {
	if id != "" {
		return r.reservations.take(id) != nil
	}
	return r.reservations.consume(from)
}

// countLocked is the count; call reservations.expire first.
func (r *Registry) countLocked() int { return r.connected + r.bare + r.reservations.len() }

// arrivalRate is how many clients a second come to the server.
func (r *Registry) arrivalRate() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.arrivals.At(r.now())
}

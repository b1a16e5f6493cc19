// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"sync"
	"time"
)

const (
	firstPenalty   = 30 * time.Second
	longestPenalty = 5 * time.Minute
	// forgetPenalty is how long after the end of its penalty an endpoint is forgotten: one that has not failed in all
	// that time is either well or gone from the cluster.
	forgetPenalty = time.Hour
	// forgetMute is how long a probe without an answer says something about the endpoint.
	forgetMute = 5 * time.Minute
	// maxPenalties bounds the memory for a source that names new endpoints all the time.
	maxPenalties = 1024
)

// Penalties remembers which endpoints have failed lately, so that a server that answers probes but cannot serve does
// not attract everyone, and which were silent when they were last asked, so that a frozen server is not taken
// unasked for want of a better one. Endpoints are named by their Addr.
//
// The first failure is worth 30 s, each further one twice as much as the one before, up to 5 min, also when the penalty
// has run out in between; only Clear starts over. An endpoint is forgotten an hour after its penalty has run out. That
// it was silent is forgotten after 5 min.
//
// The zero value is ready for use. Penalties is safe for concurrent use and must not be copied after first use.
type Penalties struct {
	mu      sync.Mutex
	entries map[string]penalty   // guarded by mu
	mute    map[string]time.Time // guarded by mu; since when an endpoint is silent
}

type penalty struct {
	span  time.Duration
	until time.Time
}

// NewPenalties returns Penalties in which nobody is penalised, as the zero value is.
func NewPenalties() *Penalties { return &Penalties{} }

// Fail penalises the endpoint from now on. It is called when an attempt on it has failed, or its session has ended
// before it was up for 30 s.
func (p *Penalties) Fail(addr string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked(now)
	span := firstPenalty
	if earlier, ok := p.entries[addr]; ok {
		span = min(2*earlier.span, longestPenalty)
	} else if len(p.entries) >= maxPenalties {
		p.dropOneLocked()
	}
	if p.entries == nil {
		p.entries = make(map[string]penalty)
	}
	p.entries[addr] = penalty{span: span, until: now.Add(span)}
}

// Clear forgives the endpoint everything. It is called when its session has been up for 30 s.
func (p *Penalties) Clear(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.entries, addr)
}

// Observe remembers which of the candidates of a probe round were silent, and forgets it of the others.
func (p *Penalties) Observe(observations []Observation, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range observations {
		addr := observations[i].Endpoint.Addr()
		switch {
		case !observations[i].Silent:
			delete(p.mute, addr)
		case len(p.mute) < maxPenalties:
			if p.mute == nil {
				p.mute = make(map[string]time.Time)
			}
			p.mute[addr] = now
		}
	}
	for addr, since := range p.mute {
		if now.Sub(since) > forgetMute {
			delete(p.mute, addr)
		}
	}
}

// Penalised says whether the penalty of the endpoint still runs.
func (p *Penalties) Penalised(addr string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry, ok := p.entries[addr]
	return ok && now.Before(entry.until)
}

// span is how long the running penalty of the endpoint is in all; 0 when none runs. Nil penalises nobody.
func (p *Penalties) span(addr string, now time.Time) time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if entry, ok := p.entries[addr]; ok && now.Before(entry.until) {
		return entry.span
	}
	return 0
}

// answers says whether the endpoint answered when it was last asked, or was not asked lately. With nil everybody does.
func (p *Penalties) answers(addr string, now time.Time) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	since, mute := p.mute[addr]
	return !mute || now.Sub(since) > forgetMute
}

// forgetLocked looks at every entry. Failures are rare, and the entries few.
func (p *Penalties) forgetLocked(now time.Time) {
	for addr, entry := range p.entries {
		if now.Sub(entry.until) > forgetPenalty {
			delete(p.entries, addr)
		}
	}
}

// dropOneLocked drops the penalty that ends first.
func (p *Penalties) dropOneLocked() {
	var first string
	var until time.Time
	for addr, entry := range p.entries {
		if first == "" || entry.until.Before(until) {
			first, until = addr, entry.until
		}
	}
	delete(p.entries, first)
}

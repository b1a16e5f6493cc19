// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"errors"
	"maps"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

const (
	// maxAsked bounds how many candidates are asked at a time, for the sake of file descriptors. The round still ends
	// after its timeout: those not asked by then have no count.
	maxAsked = 128
	// lateProber is how much longer than its context a prober may take to say why there is no count.
	lateProber = 100 * time.Millisecond
	// maxSilent bounds the memory for silent endpoints that are no candidates now but may be again.
	maxSilent = 1024
	// silentFor is how long a silent candidate is not waited for. After that one round waits for it again: it may be well
	// and only slower than the others, before whose answers its own would never come.
	silentFor = 30 * time.Second
)

// Why an observation has no count when its prober did not say so.
var (
	errNoAnswer   = errors.New("no answer in time")
	errNotAwaited = errors.New("silent in the round before and not waited for")
	errNotAsked   = errors.New("not asked: too many candidates for the time")
)

// answer is how the probe of one candidate ended.
type answer struct {
	index int
	count Count
	err   error
	at    time.Time
	late  bool // it had all of the time: the candidate was silent
}

// round is what is known of one round of probes, and the rule for when it is over. It asks nobody and waits for
// nothing.
type round struct {
	observations []Observation
	times        []time.Time // of the answers
	states       []candidateState
	missing      int  // how many have not come back
	awaited      int  // how many of these hold the round up
	answered     bool // a candidate that holds the round up has brought a count
}

type candidateState struct {
	before bool // silent in its previous round
	back   bool // its probe has ended
	silent bool // silent in this round
}

// newRound begins a round at a point in time; silent are the endpoints that were silent, and since when.
func newRound(candidates []discover.Endpoint, silent map[string]time.Time, now time.Time) *round {
	r := &round{
		observations: make([]Observation, len(candidates)),
		times:        make([]time.Time, len(candidates)),
		states:       make([]candidateState, len(candidates)),
		missing:      len(candidates),
	}
	for i, candidate := range candidates {
		r.observations[i].Endpoint = candidate
		since, before := silent[candidate.Addr()]
		r.states[i].before = before && now.Sub(since) < silentFor
		if !r.states[i].before {
			r.awaited++
		}
	}
	return r
}

// over says whether there is nothing left to wait for: all have come back, or all that hold the round up have and at
// least one of them brought a count.
func (r *round) over() bool {
	return r.missing == 0 || r.awaited == 0 && r.answered
}

func (r *round) add(a answer) {
	state := &r.states[a.index]
	state.back, state.silent = true, a.late
	r.observations[a.index].Count, r.observations[a.index].Err = a.count, a.err
	r.times[a.index] = a.at
	r.missing--
	if !state.before {
		r.awaited--
		r.answered = r.answered || a.err == nil
	}
}

// result returns the observations, with an error where no answer has come.
func (r *round) result() []Observation {
	for i, state := range r.states {
		r.observations[i].Silent = state.silent
		if !state.back {
			r.observations[i].Silent = state.before
			r.observations[i].Err = countError(r.observations[i].Endpoint, errNotAwaited)
		}
	}
	return r.observations
}

// silence returns the endpoints that are silent, seen from the next round, and since when: those of this round, those
// that were silent before and have not come back since, and those that did not take part in this round.
func (r *round) silence(earlier map[string]time.Time, now time.Time) map[string]time.Time {
	if len(earlier) > maxSilent {
		earlier = nil
	}
	silent := make(map[string]time.Time)
	maps.Copy(silent, earlier)
	for i, state := range r.states {
		addr := r.observations[i].Endpoint.Addr()
		switch {
		case state.before && !state.back: // since when it was
		case state.silent:
			silent[addr] = now
		default:
			delete(silent, addr)
		}
	}
	return silent
}

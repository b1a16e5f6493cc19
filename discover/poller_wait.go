// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import "time"

const (
	// urgentWait is the floor, and the first wait after a failure, while no endpoint is usable.
	urgentWait = time.Second
	// maxShorter is how much of a wait jitter takes away at most.
	maxShorter = 0.2
)

// pace says how often to look.
type pace struct {
	interval, maxInterval, minInterval time.Duration
}

// regular is the wait after a lookup that was preceded by failures, itself included: the interval, doubled for each of
// them. The random number of [0, 1) shortens it.
func (p pace) regular(failures int, random float64) time.Duration {
	return shorten(doubled(p.interval, failures, p.maxInterval), random)
}

// first is the wait after the first lookup that found something: anything from the floor to the interval, so that
// clients that start together do not look together for ever.
func (p pace) first(random float64) time.Duration {
	return p.minInterval + time.Duration(random*float64(p.interval-p.minInterval))
}

// repeat is the wait after a failed lookup while no endpoint is usable; failures are those since then.
func (p pace) repeat(failures int, random float64) time.Duration {
	base := min(urgentWait, p.interval)
	return max(shorten(doubled(base, failures-1, p.maxInterval), random), p.floor(true))
}

// floor is the least time between the beginnings of two lookups of which the second was asked for by a hint.
func (p pace) floor(urgent bool) time.Duration {
	if urgent {
		return min(urgentWait, p.minInterval)
	}
	return p.minInterval
}

// doubled doubles a wait n times, up to a limit.
func doubled(wait time.Duration, n int, limit time.Duration) time.Duration {
	for range n {
		if wait >= limit/2 {
			return limit
		}
		wait *= 2
	}
	return min(wait, limit)
}

func shorten(wait time.Duration, random float64) time.Duration {
	return wait - time.Duration(maxShorter*random*float64(wait))
}

// schedule decides when to look next. It is told what happens and waits for nothing itself. The zero value with a pace
// wants the first lookup at once.
type schedule struct {
	pace

	began   time.Time // of the last lookup; zero before the first
	ended   time.Time // of the last lookup
	due     time.Time // when to look by the regular waits
	dueSoon time.Time // when to look while no endpoint is usable; zero after a success

	failures       int // in a row
	urgentFailures int // in a row, while no endpoint was usable
	found          bool
	unusable       bool // told by the user of the endpoints
	hinted         bool // a hint waits
}

// urgent says whether there is no usable endpoint: none was ever found, or all that were are of no use.
func (s *schedule) urgent() bool { return s.unusable || !s.found }

// hint keeps a hint until a lookup begins.
func (s *schedule) hint() { s.hinted = true }

// setUsable notes whether any endpoint is usable. When the last one has gone that is a hint too.
func (s *schedule) setUsable(usable bool) {
	if !usable && !s.unusable {
		s.urgentFailures, s.dueSoon = 0, time.Time{}
		s.hinted = true
	}
	s.unusable = !usable
}

// begin notes that a lookup begins. It serves all hints up to now.
func (s *schedule) begin(now time.Time) {
	s.began, s.hinted = now, false
}

// succeed notes that a lookup has found endpoints. random is of [0, 1).
func (s *schedule) succeed(now time.Time, random float64) {
	wait := s.regular(0, random)
	if !s.found {
		wait = s.first(random)
	}
	s.found, s.failures, s.urgentFailures = true, 0, 0
	s.ended, s.due, s.dueSoon = now, now.Add(wait), time.Time{}
}

// fail notes that a lookup has found nothing. random is of [0, 1).
func (s *schedule) fail(now time.Time, random float64) {
	s.failures++
	s.ended, s.due = now, now.Add(s.regular(s.failures, random))
	s.dueSoon = time.Time{}
	if s.urgent() {
		s.urgentFailures++
		s.dueSoon = now.Add(s.repeat(s.urgentFailures, random))
	}
}

// next returns when to look. It may lie in the past.
func (s *schedule) next() time.Time {
	if s.began.IsZero() {
		return s.began
	}
	next := s.due
	if s.urgent() && !s.dueSoon.IsZero() {
		next = earlier(next, s.dueSoon)
	}
	if s.hinted {
		next = earlier(next, s.began.Add(s.floor(s.urgent())))
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

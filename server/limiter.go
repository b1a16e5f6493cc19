// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"container/list"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// maxBuckets bounds the memory that peers with many addresses can take. Beyond it the bucket that was used least
// recently is forgotten, which can only let its source through a little earlier: the bounds of the reservations
// themselves hold anyway.
const maxBuckets = 4096

// limiter says how often each source may reserve: a token bucket for each. It does no locking; the registry's lock guards
// it.
type limiter struct {
	rate  rate.Limit
	burst int
	// full is how long an unused bucket takes to fill up: from then on it is as good as a new one and need not be kept.
	full time.Duration

	byUse    list.List // of *bucket, the least recently used first
	bySource map[source]*list.Element
}

type bucket struct {
	from   source
	tokens *rate.Limiter
	used   time.Time
}

func newLimiter(perSecond float64, burst int) *limiter {
	full := time.Duration(math.MaxInt64)
	// Where it takes longer than a Duration can hold, a bucket is never full again.
	if seconds := float64(burst) / perSecond; seconds < full.Seconds() {
		full = time.Duration(seconds * float64(time.Second))
	}
	return &limiter{rate: rate.Limit(perSecond), burst: burst, full: full, bySource: make(map[source]*list.Element)}
}

// allow takes a token of the source and reports whether there was one. Its cost is constant, amortised over calls.
func (l *limiter) allow(from source, now time.Time) bool {
	l.forget(now)
	element, ok := l.bySource[from]
	if !ok {
		if l.byUse.Len() >= maxBuckets {
			l.drop(l.byUse.Front())
		}
		element = l.byUse.PushBack(&bucket{from: from, tokens: rate.NewLimiter(l.rate, l.burst)})
		l.bySource[from] = element
	}
	l.byUse.MoveToBack(element)
	b := element.Value.(*bucket)
	b.used = now
	return b.tokens.AllowN(now, 1)
}

// spent says whether the source would get no token now. It takes none.
func (l *limiter) spent(from source, now time.Time) bool {
	element, ok := l.bySource[from]
	return ok && element.Value.(*bucket).tokens.TokensAt(now) < 1
}

// forget drops the buckets that have been unused for so long that they are full again.
func (l *limiter) forget(now time.Time) {
	for front := l.byUse.Front(); front != nil; front = l.byUse.Front() {
		if now.Sub(front.Value.(*bucket).used) < l.full {
			return
		}
		l.drop(front)
	}
}

func (l *limiter) drop(element *list.Element) {
	delete(l.bySource, element.Value.(*bucket).from)
	l.byUse.Remove(element)
}

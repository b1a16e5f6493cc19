// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"container/list"
	"time"
)

// reservations is the table of clients that said they would connect. It does no locking and never looks at the clock: the
// registry's lock guards it, and every method is told the time, as a span since the registry was made.
//
// All reservations live equally long, so one list in the order of their making is also in the order of their expiry, and
// expiring looks at the front only. Each source has a list of its own for finding its oldest one. A source is in the map
// only while it has a reservation, so the map is bounded by the same number as the reservations.
//
// A reservation with an id is found by it only: the client that knows it takes it up, or gives it up. Its source does not,
// since it may have others, with clients of their own.
type reservations struct {
	ttl          time.Duration
	max          int
	maxPerSource int

	byAge    list.List // of *reservation, oldest first
	bySource map[source]*origin
	byID     map[string]*reservation
}

// origin has the reservations of one source, oldest first: all of them, and those without an id.
type origin struct {
	all, anonymous list.List
}

// reservation is one announced client.
type reservation struct {
	from    source
	id      string // empty for one without
	made    time.Duration
	expires time.Duration
	inAge   *list.Element
	inFrom  *list.Element
	inAnon  *list.Element // nil with an id
}

func newReservations(ttl time.Duration, limit, perSource int) *reservations {
	return &reservations{
		ttl: ttl, max: limit, maxPerSource: perSource,
		bySource: make(map[source]*origin), byID: make(map[string]*reservation),
	}
}

// len is the number of reservations that have not been dropped yet; call expire first.
func (rs *reservations) len() int { return rs.byAge.Len() }

// nextExpiry returns when the oldest reservation ends, and false when there is none.
func (rs *reservations) nextExpiry() (time.Duration, bool) {
	front := rs.byAge.Front()
	if front == nil {
		return 0, false
	}
	return front.Value.(*reservation).expires, true
}

// expire drops what has ended by now. Each reservation is dropped once, so the cost is constant for each one made.
func (rs *reservations) expire(now time.Duration) {
	for front := rs.byAge.Front(); front != nil; front = rs.byAge.Front() {
		oldest := front.Value.(*reservation)
		if oldest.expires > now {
			return
		}
		rs.drop(oldest)
	}
}

// add makes a reservation, with an id or without. Where a bound forbids it, it makes none and returns how long it takes until
// the reservation that stands in the way ends.
func (rs *reservations) add(from source, id string, now time.Duration) (wait time.Duration, ok bool) {
	own := rs.bySource[from]
	if own != nil && own.all.Len() >= rs.maxPerSource {
		return own.all.Front().Value.(*reservation).expires - now, false
	}
	if rs.byAge.Len() >= rs.max {
		return rs.byAge.Front().Value.(*reservation).expires - now, false
	}
	if own == nil {
		own = &origin{}
		rs.bySource[from] = own
	}
	made := &reservation{from: from, id: id, made: now, expires: now + rs.ttl}
	made.inAge = rs.byAge.PushBack(made)
	made.inFrom = own.all.PushBack(made)
	if id == "" {
		made.inAnon = own.anonymous.PushBack(made)
	} else {
		rs.byID[id] = made
	}
	return 0, true
}

// consume drops the oldest reservation of the source that has no id, whose client has come, and reports whether there was
// one.
func (rs *reservations) consume(from source) bool {
	own := rs.bySource[from]
	if own == nil || own.anonymous.Len() == 0 {
		return false
	}
	rs.drop(own.anonymous.Front().Value.(*reservation))
	return true
}

// take drops the reservation with the id and returns it, or nil where there is none.
func (rs *reservations) take(id string) *reservation {
	r := rs.byID[id]
	if r != nil {
		rs.drop(r)
	}
	return r
}

func (rs *reservations) drop(r *reservation) {
	rs.byAge.Remove(r.inAge)
	own := rs.bySource[r.from]
	own.all.Remove(r.inFrom)
	if r.inAnon != nil {
		own.anonymous.Remove(r.inAnon)
	} else {
		delete(rs.byID, r.id)
	}
	if own.all.Len() == 0 {
		delete(rs.bySource, r.from)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import "time"

// event is something that happens at a point in virtual time.
type event struct {
	at    time.Duration
	order uint64 // of the making: what is planned for the same time happens in the order of planning
	do    func()
}

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// queue has the events that are still to happen, and the time. The zero value is empty, at time 0. It is a heap of values:
// that of the standard library would allocate for each event.
type queue struct {
	now    time.Duration
	events []event
	made   uint64
}

// after plans something.
func (q *queue) after(wait time.Duration, do func()) {
	q.made++
	e := event{at: q.now + max(wait, 0), order: q.made, do: do}
	q.events = append(q.events, e)
	i := len(q.events) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&q.events[parent]) {
			break
		}
		q.events[i] = q.events[parent]
		i = parent
	}
	q.events[i] = e
}

// next lets the next event happen that is due until then, and reports whether there was one.
func (q *queue) next(until time.Duration) bool {
	if len(q.events) == 0 || q.events[0].at > until {
		return false
	}
	first := q.events[0]
	last := len(q.events) - 1
	moved := q.events[last]
	q.events[last].do = nil
	q.events = q.events[:last]
	if last > 0 {
		q.sink(moved)
	}
	q.now = first.at
	first.do()
	return true
}

// sink puts an event where the first one was, and then down to its place.
func (q *queue) sink(moved event) {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(q.events) {
			break
		}
		if right := child + 1; right < len(q.events) && q.events[right].before(&q.events[child]) {
			child = right
		}
		if !q.events[child].before(&moved) {
			break
		}
		q.events[i] = q.events[child]
		i = child
	}
	q.events[i] = moved
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import "sync"

// admission bounds how many of something there are at a time, in all and for each peer address: connections, handshakes,
// requests, clients. So no peer can take up all of the server. A source is in the map only while it has a place. It is safe
// for concurrent use.
type admission struct {
	max, maxPerSource int

	mu       sync.Mutex
	taken    int
	bySource map[source]int
	refused  uint64
}

func newAdmission(limit, perSource int) *admission {
	return &admission{max: limit, maxPerSource: perSource, bySource: make(map[source]int)}
}

// enter takes a place and reports whether there was one; leave gives it back.
func (a *admission) enter(from source) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken >= a.max || a.bySource[from] >= a.maxPerSource {
		a.refused++
		return false
	}
	a.taken++
	a.bySource[from]++
	return true
}

func (a *admission) leave(from source) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken--
	if a.bySource[from]--; a.bySource[from] == 0 {
		delete(a.bySource, from)
	}
}

// inside is how many places are taken.
func (a *admission) inside() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.taken
}

// refusals is how often there was no place.
func (a *admission) refusals() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

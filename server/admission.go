// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import "sync"

// admission bounds the handshakes that go on at a time, in all and for each peer address, so that peers who connect and
// say nothing hold a bounded part of the server. A source is in the map only while it has a handshake. It is safe for
// concurrent use.
type admission struct {
	max, maxPerSource int

	mu       sync.Mutex
	pending  int
	bySource map[source]int
}

func newAdmission(limit, perSource int) *admission {
	return &admission{max: limit, maxPerSource: perSource, bySource: make(map[source]int)}
}

// enter takes a place and reports whether there was one; leave gives it back.
func (a *admission) enter(from source) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending >= a.max || a.bySource[from] >= a.maxPerSource {
		return false
	}
	a.pending++
	a.bySource[from]++
	return true
}

func (a *admission) leave(from source) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending--
	if a.bySource[from]--; a.bySource[from] == 0 {
		delete(a.bySource, from)
	}
}

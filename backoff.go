// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"math/rand/v2"
	"time"
)

const (
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second

	// steadyUptime is how long a session must have been up to count as a good one: it resets the backoff and clears
	// the penalty of its server.
	steadyUptime = 30 * time.Second
	// minUptime is twice the interval of the server's keep-alives. A session that did not live to see its second one,
	// after another of that kind, counts as a failed attempt: a server that accepts and drops would be dialled in a tight
	// loop otherwise.
	minUptime = 2 * time.Second
	// minStay is the same for a session whose server asks the client to leave, which is no fault: a server that drains
	// asks new clients too, and a proxy may end connections at an early age. Only the third such session in a row that did
	// not even last so long counts as a failed attempt, so that servers cannot send a client round in circles.
	minStay  = 250 * time.Millisecond
	maxHasty = 2
)

// ladder is the wait between failed attempts: 1 s, doubling to 30 s. Its zero value is at the bottom. It is climbed by
// failed attempts only, and left by a session that was up for 30 s, so that a server which accepts and then drops is
// not dialled over and over at the shortest wait.
type ladder struct{ failures int }

// climb returns the wait before the next attempt: the upper half of the rung is random, so that clients that failed
// together do not return together.
func (l *ladder) climb() time.Duration {
	rung := maxBackoff
	if l.failures < 5 {
		rung = firstBackoff << l.failures
	}
	l.failures++
	half := rung / 2
	return half + rand.N(half+1) //nolint:gosec // spreads clients, hides nothing
}

// sessionEnded resets the ladder after a session that was up for long enough.
func (l *ladder) sessionEnded(uptime time.Duration) {
	if uptime >= steadyUptime {
		l.failures = 0
	}
}

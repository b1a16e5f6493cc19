// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import "time"

const (
	// maxHealth bounds what is remembered of servers that come and go.
	maxHealth = 1024
	// A server that has been above the others for stuckAfter intervals, and has kept more than stuckPart of what it had
	// then, does not come down.
	stuckAfter = 4
	stuckPart  = .75
	// A server that has stopped to tell its count fallsMost times, with less than forgiven rests in between, is not
	// believed for a rest for each of them: who moves to it has to come back.
	fallsMost = 3
	forgiven  = 4
)

// health is what a Rebalancer remembers of a server.
type health struct {
	well  bool          // it had a count when it was last asked
	until time.Duration // its counts are not believed before

	falls int           // how often it stopped to have a count
	fell  time.Duration // the last time

	high  time.Duration // since when it is above the others; 0 where it is not
	count int           // what it had then
	stuck bool          // it does not come down
}

// observe takes the answers in. A server that had a count when it was last asked and has none now is trouble, and so is
// one that never had one, unless so many were asked that one is likely; one that goes on having none is not.
func (r *Rebalancer) observe(answers []Answer) {
	r.known = append(r.known[:0], answers[:min(len(answers), len(r.asked))]...)
	if len(r.servers) > maxHealth {
		clear(r.servers)
	}
	for i := range r.known {
		name := r.ballot.Names[r.asked[i]]
		before, met := r.servers[name]
		well := r.known[i].usable()
		if !well && (before.well || !met && r.phase == looking) {
			r.trouble = r.now
		}
		if met && before.well == well {
			continue
		}
		if before.well && !well {
			before.fall(r.now, r.config.Rest)
		}
		before.well = well
		r.servers[name] = before
	}
}

// fall says that the server tells its count no more.
func (h *health) fall(now, rest time.Duration) {
	if now-h.fell > forgiven*rest {
		h.falls = 0
	}
	h.falls, h.fell = min(h.falls+1, maxRests), now
	if h.falls >= fallsMost {
		h.until = now + time.Duration(h.falls)*rest
	}
}

// doubt has the server not believed for so many rests.
func (r *Rebalancer) doubt(index, rests int) {
	name := r.ballot.Names[index]
	doubted := r.servers[name]
	doubted.until = max(doubted.until, r.now+time.Duration(rests)*r.config.Rest)
	r.servers[name] = doubted
}

// weigh remembers whether a server is above the others, and reports whether it has been for long and does not come down.
func (r *Rebalancer) weigh(name string, count int, above bool) bool {
	h := r.servers[name]
	switch {
	case !above && h.high == 0:
		return false
	case !above:
		h.high, h.stuck = 0, false
	case h.high == 0 || float64(count) < stuckPart*float64(h.count):
		h.high, h.count, h.stuck = max(r.now, 1), count, false
	case r.now-h.high >= stuckAfter*r.config.Interval:
		h.stuck = true
	}
	r.servers[name] = h
	return h.stuck
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/arrival"
	"github.com/evenkeel-go/evenkeel/internal/decide"
)

// condition is what a simulated server does.
type condition uint8

const (
	serving  condition = iota
	down               // refuses connections
	silent             // takes connections and says nothing
	hollow             // answers probes and cannot serve
	draining           // refuses new clients, and sends those it has away
	unknown            // is down, and discovery does not know it
)

// node is a simulated server.
type node struct {
	index     int
	endpoint  discover.Endpoint
	rtt       time.Duration
	capacity  int
	stock     bool
	condition condition
	lie       func(*decide.Answer) // what it makes of the truth; nil for an honest one

	sessions int // connected clients
	stocks   int // of these, stock ones in a fleet that has both
	reserved int // live reservations
	epoch    int // counts its starts: reservations of earlier ones are gone
	rate     arrival.Rate
}

// answers says that the server answers probes.
func (n *node) answers() bool { return n.condition == serving || n.condition == hollow }

// count is what the server says.
func (n *node) count() int { return n.sessions + n.reserved }

// reset makes it a server that has just been started.
func (n *node) reset() {
	n.reserved, n.rate = 0, arrival.Rate{}
	n.epoch++
}

// answer is the answer to a probe that arrives now, without the times.
func (n *node) answer(now time.Duration) decide.Answer {
	if !n.answers() {
		return decide.Answer{}
	}
	a := decide.Answer{Known: true, Connections: n.count()}
	if !n.stock {
		a.HasRate, a.Rate, a.Capacity = true, n.rate.At(now), n.capacity
	}
	if n.lie != nil {
		n.lie(&a)
	}
	return a
}

// reservation is one that a server counts. It is gone when it was consumed, released or has expired, and with the server.
type reservation struct {
	at         *node
	epoch      int
	made       time.Duration
	identified bool // can be released
	gone       bool
}

// reserve is the answer to a reservation that arrives now, and the reservation where one was made.
func (n *node) reserve(now time.Duration, bound int, plain bool) (decide.Reply, *reservation) {
	if !n.answers() {
		return decide.Reply{}, nil
	}
	identified := !n.stock && !plain
	if identified && bound != decide.None && n.count() >= bound {
		return decide.Reply{Refused: true, Identified: true, Count: n.count()}, nil
	}
	n.reserved++
	n.rate.Add(now)
	return decide.Reply{Granted: true, Identified: identified, Count: n.count()}, &reservation{at: n, epoch: n.epoch, made: now, identified: identified}
}

// end takes the reservation out of the count, once.
func (r *reservation) end() {
	if r.gone || r.epoch != r.at.epoch {
		return
	}
	r.gone = true
	r.at.reserved--
}

// release ends it for a client that does not come, which then was no arrival.
func (r *reservation) release(now time.Duration) {
	if !r.gone && r.epoch == r.at.epoch {
		r.at.rate.Withdraw(r.made, now)
	}
	r.end()
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"time"

	"github.com/evenkeel-go/evenkeel/internal/decide"
)

// ask asks servers, all at once, and goes on when the last one has answered or its time is up. The answers are good until
// then returns.
func (w *world) ask(nodes []*node, indices []int, then func([]decide.Answer)) {
	w.tally.requests += len(indices)
	answers := w.blank(len(indices))
	hear := func(i int) {
		n := nodes[indices[i]]
		answers[i] = n.answer(w.now)
		answers[i].At, answers[i].RTT = w.now+n.rtt/2, n.rtt
	}
	last := func() {
		w.spare = append(w.spare, answers) // nobody takes it before then has read it
		then(answers)
	}
	if w.uniform { // one event for all
		w.after(w.scenario.RTT/2, func() {
			for i := range indices {
				hear(i)
			}
			w.after(w.scenario.RTT/2, last)
		})
		return
	}
	longest := time.Duration(0)
	for i, index := range indices {
		n := nodes[index]
		if n.condition == silent {
			longest = probeTimeout
			continue
		}
		longest = max(longest, n.rtt)
		w.after(n.rtt/2, func() { hear(i) })
	}
	w.after(longest, last)
}

// reserve asks for a reservation.
func (w *world) reserve(n *node, action decide.Action, then func(decide.Reply, *reservation)) {
	w.tally.requests++
	lost := w.scenario.LoseReservations > 0 && w.random.Float64() < w.scenario.LoseReservations
	if lost || n.condition == silent {
		w.after(probeTimeout, func() { then(decide.Reply{}, nil) })
		return
	}
	w.after(n.rtt/2, func() {
		reply, made := n.reserve(w.now, action.Bound, action.Plain)
		if made != nil && w.scenario.forgets() {
			w.after(reservationTTL, made.end)
		}
		w.after(n.rtt/2, func() { then(reply, made) })
	})
}

// release gives a reservation up, where it can be.
func (w *world) release(r *reservation) {
	if r != nil && r.identified {
		w.tally.requests++
		w.after(r.at.rtt/2, func() { r.release(w.now) })
	}
}

// dialTime is how long it takes from a pick to Connect, or to give it up.
func (n *node) dialTime() time.Duration {
	if n.condition == silent {
		return dialTimeout
	}
	return dialRounds*n.rtt + n.rtt/2
}

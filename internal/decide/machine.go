// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import (
	"math/rand/v2"
	"time"
)

// phase is what a machine waits to be told.
type phase uint8

const (
	starting  phase = iota
	jittering       // the wait before the first round is over
	looking         // the first answers, or those of all where nothing is sampled
	pausing         // the wait before the second look is over
	lookingAgain
	completing // the answers of those who are not in the sample
	reserving
	lingering  // the wait before the pick is corrected is over
	correcting // the answers to that
	moving     // the reservation at a better place
	over
)

// Machine makes the decisions of one client, one after the other. Make it with New; drive it as the package says. It keeps
// what it needs in memory of its own, which later decisions use again.
type Machine struct {
	random *rand.Rand
	config Config
	phase  phase

	asked []int    // of the question that is open or was last
	known []Answer // parallel to asked
	first []Answer // of the first look, where there was a second; else empty
	table []glass  // those of asked that have a count

	others float64       // W: how many decide within a round trip, of those who come to the candidates of the table
	crowd  bool          // W over all candidates is more than 1
	span   time.Duration // the round trip

	at    int // in the table: where a reservation is asked for
	tries int
	own   int           // the candidate at which a reservation is held; None
	wait  time.Duration // the longest that the machine could have lingered
	even  float64       // the level that the servers of the table would have without a difference
}

// New returns a machine that has nothing to decide yet.
func New(random *rand.Rand) *Machine { return &Machine{random: random, phase: over} }

// Begin begins a decision among the candidates of the configuration, of which there must be one, and returns the first
// action.
func (m *Machine) Begin(config Config) Action {
	m.config, m.tries, m.own, m.crowd, m.others = config, 0, None, false, 0
	m.first = m.first[:0]
	if len(config.Weights) == 1 {
		return m.done(0)
	}
	if config.MaxJitter > 0 {
		m.phase = jittering
		return Action{Kind: Wait, Wait: m.upTo(config.MaxJitter)}
	}
	return m.look()
}

// upTo is a random time below the longest.
func (m *Machine) upTo(longest time.Duration) time.Duration {
	return time.Duration(m.random.Int64N(int64(longest)))
}

// Waited says that the wait is over.
func (m *Machine) Waited() Action {
	switch m.phase {
	case jittering:
		return m.look()
	case pausing:
		m.phase = lookingAgain
		return Action{Kind: Ask, Ask: m.asked}
	case lingering:
		return m.lookAround()
	default:
		return m.settle()
	}
}

// Answered tells the answers to the last question, in its order.
func (m *Machine) Answered(now time.Duration, answers []Answer) Action {
	switch m.phase {
	case looking:
		m.known = append(m.known[:0], answers...)
		if m.config.whole() {
			return m.takeLeast()
		}
		return m.looked(now)
	case lookingAgain:
		m.first, m.known = m.known, append(m.first[:0], answers...)
		return m.estimate(now)
	case completing:
		m.known = append(m.known, answers...)
		return m.takeLeast()
	case correcting:
		m.known = append(m.known[:0], answers...)
		return m.correct()
	default:
		return m.settle()
	}
}

// Reserved tells what came of the reservation.
func (m *Machine) Reserved(reply Reply) Action {
	switch m.phase {
	case reserving:
		return m.reserved(reply)
	case moving:
		return m.moved(reply)
	default:
		return m.settle()
	}
}

// done ends the decision.
func (m *Machine) done(index int) Action {
	m.phase = over
	return Action{Kind: Done, Index: index, Bound: None, Release: None}
}

// Settle ends the decision early. The pick is the candidate at which a reservation is held, or None.
func (m *Machine) Settle() Action { return m.done(m.own) }

// settle ends the decision for a caller that told what was not asked for: with what there is.
func (m *Machine) settle() Action {
	if m.own != None || len(m.config.Weights) == 0 {
		return m.done(m.own)
	}
	return m.done(m.random.IntN(len(m.config.Weights)))
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

// lookAround asks the own server and others, when the crowd has passed or is passing.
func (m *Machine) lookAround() Action {
	m.phase = correcting
	n := len(m.config.Weights)
	m.asked = sample(append(m.asked[:0], m.own), min(sampleSize, n)-1, n, m.own, m.random)
	return Action{Kind: Ask, Ask: m.asked}
}

// correct moves the reservation where the own server stands above the others, with a probability that moves what is too
// much there and no more: the others who hold reservations there look too, each at a time of its own.
func (m *Machine) correct() Action {
	m.fill()
	if len(m.table) < 2 || m.table[0].index != m.own {
		return m.done(m.own)
	}
	m.even = evenLevel(m.table)
	own := m.table[0]
	surplus := float64(own.count) - m.even*float64(own.share)
	// Those who see the same surplus, since they look before what others move can be seen.
	lookers := float64(own.count) * m.span.Seconds() / m.wait.Seconds()
	if surplus < 1 || m.random.Float64()*max(1, lookers) >= surplus {
		return m.done(m.own)
	}
	m.tries = 0
	m.table = m.table[1:]
	return m.move()
}

// move asks for a reservation at a server that is below the even level, under the bound that it stays there.
func (m *Machine) move() Action {
	m.at = pour(m.table, m.even, m.random)
	target := m.table[m.at]
	if target.room(m.even) == 0 || m.tries >= maxMoves {
		return m.done(m.own)
	}
	m.tries++
	m.phase = moving
	return Action{Kind: Reserve, Index: target.index, Bound: target.bound(m.even), Release: None}
}

// moved goes on after a reservation at a better place.
func (m *Machine) moved(reply Reply) Action {
	switch {
	case reply.Granted:
		action := m.done(m.table[m.at].index)
		action.Release = m.own
		return action
	case reply.Refused:
		m.table[m.at].count = max(reply.Count, m.table[m.at].count+1)
		return m.move()
	default:
		return m.done(m.own)
	}
}

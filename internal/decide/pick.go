// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import "math"

// takeLeast picks the minimum of all that have a count, or anybody where there is none.
func (m *Machine) takeLeast() Action {
	m.fill()
	if len(m.table) == 0 {
		m.fillWithSilent()
		m.at = anybody(m.table, m.random)
		return m.reserve(None)
	}
	return m.reserveLeast()
}

// fillWithSilent makes the table of those who are not known, without the draining ones where there are others.
func (m *Machine) fillWithSilent() {
	for _, draining := range []bool{false, true} {
		for i, index := range m.asked {
			if m.known[i].Draining == draining {
				m.table = append(m.table, glass{index: index, share: Share(m.config.Weights[index])})
			}
		}
		if len(m.table) > 0 {
			return
		}
	}
}

// reserveLeast reserves at the minimum. Nobody else is thought to come: a server whose count has grown is to say so.
func (m *Machine) reserveLeast() Action {
	m.at = least(m.table, m.random)
	return m.reserve(min(m.table[m.at].count, maxBound-1) + 1)
}

// draw reserves at one of the table, drawn from the water that those who decide at once would fill. Of a large crowd no
// server gets more than drawMost times its part, however empty it says it is: one that counts nobody would get all of it.
func (m *Machine) draw() Action {
	w, shares := max(1, m.others), 0.0
	for _, g := range m.table {
		shares += float64(g.share)
	}
	most := math.Inf(1)
	if w >= largeCrowd*float64(len(m.table)) {
		most = drawMost * w / shares
	}
	l := levelWithin(m.table, w, most)
	m.at = pourWithin(m.table, l, most, m.random)
	return m.reserve(m.table[m.at].bound(l))
}

func (m *Machine) reserve(bound int) Action {
	index := m.table[m.at].index
	if !m.config.Reserve {
		return m.done(index)
	}
	m.tries++
	if m.config.Classic || m.tries >= maxTries {
		bound = None
	}
	m.phase = reserving
	return Action{Kind: Reserve, Index: index, Bound: bound, Plain: m.config.Classic, Release: None}
}

// reserved goes on after a reservation at the pick.
func (m *Machine) reserved(reply Reply) Action {
	picked := &m.table[m.at]
	if reply.Refused && m.tries < maxTries {
		return m.refused(reply)
	}
	if !reply.Granted || !reply.Identified || !m.crowd || !m.config.Release || m.config.MaxJitter <= 0 {
		return m.done(picked.index)
	}
	m.own = picked.index
	m.wait = min(lingerSpan+lingerRounds*m.span, lingerMost)
	m.phase = lingering
	return Action{Kind: Wait, Wait: m.upTo(m.wait)}
}

// refused picks again, with what the refusal tells: how many came in between to that server.
func (m *Machine) refused(reply Reply) Action {
	picked := &m.table[m.at]
	told := max(reply.Count, 0)
	came := max(told-picked.count, 1)
	picked.count = told
	if came < crowdAtOne && !m.crowd {
		return m.reserveLeast()
	}
	// One of them is what was thought to be alone; the others say that as many come to each.
	m.others = max(m.others, float64(came-1)*float64(len(m.table)))
	return m.draw()
}

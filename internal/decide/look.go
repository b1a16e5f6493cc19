// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import (
	"math/rand/v2"
	"slices"
	"time"
)

// look asks the first question.
func (m *Machine) look() Action {
	m.phase = looking
	n := len(m.config.Weights)
	m.asked = slices.Grow(m.asked[:0], n)
	if n > sampleSize && !m.config.whole() {
		m.asked = sample(m.asked, sampleSize, n, None, m.random)
	} else {
		for i := range n {
			m.asked = append(m.asked, i)
		}
	}
	return Action{Kind: Ask, Ask: m.asked}
}

// sample appends k of the n indices to the list, each with the same chance, none twice, and never the one to leave out
// (R. Floyd's way, which needs no list of all). Their order is not random, which matters to nobody.
func sample(list []int, k, n, without int, random *rand.Rand) []int {
	if without != None {
		n-- // the last index stands for the one that is left out
	}
	began := len(list)
	for limit := n - k; limit < n; limit++ {
		i := random.IntN(limit + 1)
		if slices.Contains(list[began:], i) {
			i = limit
		}
		list = append(list, i)
	}
	for i, index := range list[began:] {
		if index == without {
			list[began+i] = n
		}
	}
	return list
}

// looked goes on after the first look: to a second one where a server that has a count did not tell its rate.
func (m *Machine) looked(now time.Duration) Action {
	unrated := func(a Answer) bool { return a.usable() && !a.rated() }
	if m.config.MaxJitter <= 0 || !slices.ContainsFunc(m.known, unrated) {
		return m.estimate(now)
	}
	// The random part makes a crowd thin at its end, where nobody comes after to even out what collided.
	m.phase = pausing
	return Action{Kind: Wait, Wait: secondLeast + m.upTo(secondSpan+min(secondRounds*m.age(now), secondMost))}
}

// usable says that the candidate can be compared with others.
func (a *Answer) usable() bool { return a.Known && a.Connections >= 0 && !a.Draining }

// rated says that there is a rate that can be meant, which what is not a number cannot.
func (a *Answer) rated() bool { return a.HasRate && a.Rate >= 0 }

// age is how old the count is when a reservation that leaves now arrives: it was taken half a round trip before it came.
func (a *Answer) age(now time.Duration) time.Duration {
	return min(min(max(now-a.At, 0), maxAge)+min(max(a.RTT, 0), maxAge), maxAge)
}

// age is how old the counts are on average.
func (m *Machine) age(now time.Duration) time.Duration {
	sum, n := time.Duration(0), time.Duration(0)
	for i := range m.known {
		if m.known[i].usable() {
			sum += m.known[i].age(now)
			n++
		}
	}
	return sum / max(n, 1)
}

// roundTrip is how long the usable candidates took to answer, on average. Unlike the age of their counts it does not grow
// when a silent candidate holds the look up.
func (m *Machine) roundTrip() time.Duration {
	sum, n := time.Duration(0), time.Duration(0)
	for i := range m.known {
		if m.known[i].usable() {
			sum += min(max(m.known[i].RTT, 0), maxAge)
			n++
		}
	}
	return sum / max(n, 1)
}

// estimate finds out how many decide at once, and acts upon it.
func (m *Machine) estimate(now time.Duration) Action {
	m.others = 0
	usable := 0
	for i := range m.known {
		if m.known[i].usable() {
			m.others += m.rate(i) * m.known[i].age(now).Seconds()
			usable++
		}
	}
	m.span = m.roundTrip()
	m.crowd = m.others*float64(len(m.config.Weights)) > float64(usable)
	if !m.crowd {
		return m.askRest()
	}
	if len(m.first) > 0 {
		m.others *= stockCaution
	}
	m.fill()
	return m.draw()
}

// rate is how many clients a second come to a candidate of the sample: what it told, or what its count grew by. A count
// that falls makes it negative, since chance makes others grow.
func (m *Machine) rate(i int) float64 {
	a := &m.known[i]
	if a.rated() {
		return min(a.Rate, maxRate)
	}
	if len(m.first) == 0 || !m.first[i].usable() {
		return 0
	}
	before := &m.first[i]
	grown, took := float64(a.Connections)-float64(before.Connections), (a.At - before.At).Seconds()
	if took <= 0 {
		return 0
	}
	return max(-maxRate, min(grown/took, maxRate))
}

// askRest asks the candidates that are not in the sample, unless none of them can be lower.
func (m *Machine) askRest() Action {
	sampled, n := len(m.asked), len(m.config.Weights)
	if sampled == n || m.nothingLower() {
		return m.takeLeast()
	}
	m.phase = completing
	for i := range n {
		if !slices.Contains(m.asked[:sampled], i) {
			m.asked = append(m.asked, i)
		}
	}
	return Action{Kind: Ask, Ask: m.asked[sampled:]}
}

// nothingLower says that a candidate of the sample has no connections, where all candidates are equal.
func (m *Machine) nothingLower() bool {
	empty := false
	for i := range m.known {
		a := &m.known[i]
		if a.Capacity != 0 {
			return false
		}
		empty = empty || a.usable() && a.Connections == 0
	}
	for _, weight := range m.config.Weights {
		if weight != m.config.Weights[0] {
			return false
		}
	}
	return empty
}

// fill makes the table of the candidates that can be compared.
func (m *Machine) fill() { m.table = fill(m.table, m.asked, m.known, m.config.Weights) }

// fill makes a table, in memory that is given, of those of the asked that can be compared.
func fill(table []glass, asked []int, known []Answer, weights []uint16) []glass {
	table = slices.Grow(table[:0], len(asked))
	for i, index := range asked[:min(len(asked), len(known))] {
		if a := &known[i]; a.usable() {
			table = append(table, glass{index: index, count: a.Connections, told: a.Capacity})
		}
	}
	setShares(table, weights)
	return table
}

// evenLevel is the level that the servers of a table would have without a difference. There must be one.
func evenLevel(table []glass) float64 {
	sum, shares := 0.0, 0.0
	for _, g := range table {
		sum += float64(g.count)
		shares += float64(g.share)
	}
	return sum / shares
}

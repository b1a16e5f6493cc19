// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

// Chances returns how likely each candidate is to be picked, from 0 to 1, by a client that decides alone and has these
// answers of all of them. They add up to 1. The slices are parallel; there must be a candidate.
func Chances(weights []uint16, answers []Answer) []float64 {
	m := Machine{config: Config{Weights: weights}, known: answers}
	for i := range weights {
		m.asked = append(m.asked, i)
	}
	m.fill()
	if len(m.table) == 0 {
		m.fillWithSilent()
		return spreadOver(len(weights), m.table, func(g glass) float64 { return float64(g.share) })
	}
	lowest := m.table[0]
	for _, g := range m.table {
		if compare(g, lowest) < 0 {
			lowest = g
		}
	}
	return spreadOver(len(weights), m.table, func(g glass) float64 {
		if compare(g, lowest) == 0 {
			return 1
		}
		return 0
	})
}

// DrawChances returns how likely Draw returns each index.
func DrawChances(weights []uint16) []float64 {
	table := make([]glass, len(weights))
	for i, weight := range weights {
		table[i] = glass{index: i, share: Share(weight)}
	}
	return spreadOver(len(weights), table, func(g glass) float64 { return float64(g.share) })
}

// spreadOver gives each glass its part of 1, and nothing to those of the n candidates that are not in the table.
func spreadOver(n int, table []glass, part func(glass) float64) []float64 {
	chances := make([]float64, n)
	total := 0.0
	for _, g := range table {
		total += part(g)
	}
	for _, g := range table {
		chances[g.index] = part(g) / total
	}
	return chances
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import (
	"math"
	"slices"
)

// toldMost is how many times the share of the middle server a server can get by what it tells. More is for the operator to
// say, by SRV weights.
const toldMost = 16

// Shares returns the parts of the clients that the servers at some indexes of weights are to get, in proportion to each
// other: the capacity that a server tells, or else its SRV weight. capacities is parallel to the indexes, and has 0 where a
// server tells none. The weights are those of all candidates, so that each client counts a server in the same way whichever
// others it has asked.
//
// Weights that are all equal say nothing, and count as 1 each; weight 0 beside positive ones counts as a tenth of 1. A
// capacity that is told counts as toldMost times the middle one of the shares, or as the SRV weight where that is more,
// and not as more than these.
func Shares(weights []uint16, indexes, capacities []int) []uint64 {
	table, shares := make([]glass, len(indexes)), make([]uint64, len(indexes))
	for i, index := range indexes {
		table[i] = glass{index: index, told: capacities[i]}
	}
	setShares(table, weights)
	for i := range table {
		shares[i] = table[i].share
	}
	return shares
}

// setShares sets the shares of a table, as Shares has them.
func setShares(table []glass, weights []uint16) {
	equal := !slices.ContainsFunc(weights, func(weight uint16) bool { return weight != weights[0] })
	lowest, highest := uint64(math.MaxUint64), uint64(0) // the highest one that was told
	for i := range table {
		g := &table[i]
		g.share = g.weight(weights, equal)
		if g.told > 0 {
			g.share = 10 * uint64(min(g.told, maxCapacity))
			highest = max(highest, g.share)
		}
		lowest = min(lowest, g.share)
	}
	if highest/toldMost <= lowest {
		return // nothing to bound: the middle one is not below the lowest
	}
	most := toldMost * middle(table)
	for i := range table {
		if g := &table[i]; g.told > 0 {
			g.share = min(g.share, max(most, g.weight(weights, equal)))
		}
	}
}

// weight is the share by the SRV weight.
func (g *glass) weight(weights []uint16, equal bool) uint64 {
	if equal {
		return 10
	}
	return Share(weights[g.index])
}

// middle is the share of the middle server of a table, the lower one of two.
func middle(table []glass) uint64 {
	shares := make([]uint64, len(table))
	for i := range table {
		shares[i] = table[i].share
	}
	slices.Sort(shares)
	return shares[(len(shares)-1)/2]
}

// Share is a weight in tenths, so that weight 0 can be a tenth of weight 1. Where all weights are equal, zero or not, all
// shares are too.
func Share(weight uint16) uint64 { return max(1, 10*uint64(weight)) }

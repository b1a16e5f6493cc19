// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

// SharesForTest returns the shares of servers by their weights and what they tell; 0 is nothing.
func SharesForTest(weights []uint16, capacities []int) []uint64 {
	table, shares := make([]glass, len(weights)), make([]uint64, len(weights))
	for i := range table {
		table[i] = glass{index: i, told: capacities[i]}
	}
	setShares(table, weights)
	for i := range table {
		shares[i] = table[i].share
	}
	return shares
}

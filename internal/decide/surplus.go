// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import "math"

// escapeChance is the chance to leave a server that counts nobody.
const escapeChance = .5

// surplus is the part of the clients of the own server that are too many there; 0 where it is not worth a move. A sample
// knows the level only so well: perhaps is the surplus where it is lower than the sample tells by a standard error.
func (r *Rebalancer) surplus() (surplus, perhaps float64) {
	if !r.calm() || !r.compare() {
		return 0, 0
	}
	own := r.table[0]
	if own.count < 1 {
		chance := r.escape()
		return chance, chance
	}
	even, off := r.level()
	r.even = even
	return own.surplus(even), own.surplus(even - off)
}

// surplus is the part of a server's clients that are too many for a level.
func (g glass) surplus(even float64) float64 {
	if g.count <= g.limit(even) {
		return 0
	}
	return 1 - even*float64(g.share)/float64(g.count)
}

// compare makes the table, and reports whether there is enough in it.
func (r *Rebalancer) compare() bool {
	for i := range r.known {
		if i > 0 && r.now < r.servers[r.ballot.Names[r.asked[i]]].until {
			r.known[i].Known = false
		}
	}
	r.table = fill(r.table, r.asked, r.known, r.ballot.Weights)
	if len(r.table) < 2 || 2*len(r.table) < len(r.asked) || r.table[0].index != r.ballot.Own {
		return false
	}
	r.leaveStuckOut()
	return len(r.table) > 1
}

// level is that of all servers of the ballot without a difference, as the table tells it, and its standard error. The own
// server is known; each other one stands for some that were not asked.
func (r *Rebalancer) level() (even, off float64) {
	own, others := r.table[0], r.table[1:]
	each, counts, shares := r.each(), 0.0, 0.0
	for _, g := range others {
		counts += float64(g.count)
		shares += float64(g.share)
	}
	squares := 0.0 // of how far the counts are apart
	for _, g := range others {
		apart := float64(g.count) - counts/shares*float64(g.share)
		squares += apart * apart
	}
	all := float64(own.share) + each*shares
	if n := float64(len(others)); n > 1 {
		// The few that differ may not be in the sample. It is thought to be apart as random picks are at least.
		squares = max(squares*n/(n-1), counts)
		off = each * math.Sqrt(squares*(1-1/each)) / all
	}
	return (float64(own.count) + each*counts) / all, off
}

// limit is the most that is not worth a move.
func (g glass) limit(even float64) int {
	return int(math.Ceil(min(tolerance*even*float64(g.share)-roundingSlack, maxBound)))
}

// escape is the chance to leave a server that counts nobody, not even this client: how many others are there nobody knows.
// So many clients of it stay as would be there if all had picked at random, by a lot that each draws once for a session. The
// others spread over the rest, a little above its level each time.
func (r *Rebalancer) escape() float64 {
	own := r.table[0]
	r.doubt(own.index, maxRests)
	even, all := evenLevel(r.table[1:]), float64(own.share)
	for _, g := range r.table[1:] {
		all += float64(g.share) * r.each()
	}
	if even*float64(own.share) < 1 || r.lot*all < float64(own.share) {
		return 0 // none of them counts anybody, or it stays
	}
	r.even = even*tolerance + 1/float64(own.share)
	return escapeChance
}

// each is for how many servers that were not asked one of the others stands that was.
func (r *Rebalancer) each() float64 { return float64(len(r.ballot.Names)-1) / float64(len(r.asked)-1) }

// leaveStuckOut takes the servers out of the table that are above the others and do not come down: they lie, or their
// clients cannot move. What they have too much is not going to come to the others, which are to be even without it.
func (r *Rebalancer) leaveStuckOut() {
	// Those that were stuck until now go to the end, so that the level is that of the others.
	left := 1
	for i := 1; i < len(r.table); i++ {
		if !r.servers[r.nameOf(i)].stuck {
			r.table[left], r.table[i] = r.table[i], r.table[left]
			left++
		}
	}
	even := evenLevel(r.table[:left])
	for i := len(r.table) - 1; i > 0; i-- {
		if g := r.table[i]; r.weigh(r.nameOf(i), g.count, g.count > g.limit(even)) {
			last := len(r.table) - 1
			r.table[i] = r.table[last]
			r.table = r.table[:last]
		}
	}
}

// nameOf is the name of a server of the table.
func (r *Rebalancer) nameOf(i int) string { return r.ballot.Names[r.table[i].index] }

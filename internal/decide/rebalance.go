// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import (
	"math"
	"math/rand/v2"
	"time"
)

// RebalanceConfig says how patient a Rebalancer is. All of it must be more than 0.
type RebalanceConfig struct {
	// Interval is the time between two looks, on average.
	Interval time.Duration
	// Calm is how long nothing must have gone wrong, and how old the session must be, before the client may move.
	Calm time.Duration
	// Rest is the least time between two moves. It is twice as long after each further move, up to maxRests of them,
	// until there was none for four times as long.
	Rest time.Duration
}

// The numbers of rebalancing. docs/balancing.md tells why.
const (
	// tolerance is by how much a server may stand above the mean before it is worth a move. A fleet is even within
	// 1.05; a client that has a sample only aims a little closer, so that an estimate a hundredth too high does not
	// make it stay.
	tolerance = 1.04
	// confirmSize is how many servers are asked before a move; all of them where there are no more. Few clients come to
	// that in one interval, and a sample of sampleSize would be off by more than what they are to even out.
	confirmSize = 32
	// Waits between looks differ from the interval by up to a quarter.
	unevenness = 0.25
	// Where there is something to even out, the next look comes after soonerPart of the interval, and after soonestPart
	// where fewTooMany clients or less are too many: each of these looks may well pass without a move, and few clients
	// look.
	soonerPart, soonestPart = 2, 4
	fewTooMany              = 3
	// Between the two looks of a move lies the confirmPart of an interval at most, and confirmMost.
	confirmPart = 10
	confirmMost = 5 * time.Second
	// A server that has more than grownMost times what it told a moment ago, and grownAnyway, did not tell the truth.
	grownMost, grownAnyway = 2, 5
	// maxRests bounds the rest between two moves.
	maxRests = 12
)

// longAgo is before everything.
const longAgo = math.MinInt64 / 2

// Ballot is what a look of a Rebalancer is about: the servers that the client could be on, the own one among them.
type Ballot struct {
	// Names tell the servers apart from one look to the next.
	Names []string
	// Weights are those of their SRV records, as in Config.
	Weights []uint16
	// Own is the index of the server that the client is on.
	Own int
}

// Rebalancer decides when a client that has a session looks around, and whether it moves to another server: with a
// probability that moves what its server has too much and no more, when two looks a moment apart agree that there is too
// much, when nothing has gone wrong lately, and not again before it has rested. It is driven as a Machine is; the pick of
// Done is None where the client stays. Times are on the clock of the caller, which never goes back.
type Rebalancer struct {
	random *rand.Rand
	config RebalanceConfig

	next    time.Duration // when to look
	began   time.Duration // the session
	trouble time.Duration // the last that went wrong
	moved   time.Duration // the last move
	rest    time.Duration // after it
	lot     float64       // of the session: whether it leaves a server that counts nobody
	servers map[string]health

	phase  phase
	now    time.Duration // of what was told last
	ballot Ballot
	asked  []int // the own server first
	known  []Answer
	table  []glass // the own server first
	chance float64 // at the first look
	even   float64 // the level without a difference
	at     int     // in the table: where a reservation is asked for
	tries  int
}

// NewRebalancer returns a Rebalancer of a client without a session, which begins at now.
func NewRebalancer(config RebalanceConfig, random *rand.Rand, now time.Duration) *Rebalancer {
	r := &Rebalancer{
		random: random, config: config, phase: over,
		began: longAgo, trouble: longAgo, moved: longAgo, servers: make(map[string]health),
	}
	r.next = now + r.upTo(config.Interval) // clients that begin together do not look together
	return r
}

// Began says that a session has begun.
func (r *Rebalancer) Began(now time.Duration) { r.began, r.lot = now, r.random.Float64() }

// Troubled says that something went wrong: a session was lost, or a server failed an attempt.
func (r *Rebalancer) Troubled(now time.Duration) { r.trouble = now }

// Next returns when the next look is due.
func (r *Rebalancer) Next() time.Duration { return r.next }

// Look says that the time for a look has come, and when the next one is due is drawn. It reports whether this one can lead
// to a move; where it cannot, nobody need be asked.
func (r *Rebalancer) Look(now time.Duration) bool {
	r.next = now + r.around(r.config.Interval)
	return r.ready(now)
}

// ready says that the client may move: nothing has gone wrong lately, the session is not young, and it has rested.
func (r *Rebalancer) ready(now time.Duration) bool {
	r.now = now
	return r.calm() && now >= r.moved+r.rest
}

// Begin begins a look, and returns its first action. The slices of the ballot are read until the look is over.
func (r *Rebalancer) Begin(now time.Duration, ballot Ballot) Action {
	r.ballot, r.tries = ballot, 0
	if !r.ready(now) || len(ballot.Names) < 2 {
		return r.stay()
	}
	return r.ask(looking, sampleSize)
}

// ask asks so many servers, the own one among them.
func (r *Rebalancer) ask(next phase, size int) Action {
	n := len(r.ballot.Names)
	r.asked = append(r.asked[:0], r.ballot.Own)
	r.asked = sample(r.asked, min(size, n)-1, n, r.ballot.Own, r.random)
	r.phase = next
	return Action{Kind: Ask, Ask: r.asked}
}

// calm says that nothing has gone wrong lately, and that the session is not young.
func (r *Rebalancer) calm() bool {
	return r.now >= max(r.began, r.trouble)+r.config.Calm
}

// Answered tells the answers to the last question, in its order.
func (r *Rebalancer) Answered(now time.Duration, answers []Answer) Action {
	r.now = now
	switch r.phase {
	case looking:
		r.observe(answers)
		surplus, perhaps := r.surplus()
		if surplus > 0 {
			r.lookSooner(surplus)
		}
		if r.random.Float64() >= perhaps {
			return r.stay()
		}
		r.chance, r.phase = perhaps, pausing
		return Action{Kind: Wait, Wait: r.upTo(min(r.config.Interval/confirmPart, confirmMost))}
	case lookingAgain:
		r.observe(answers)
		surplus, _ := r.surplus()
		if surplus == 0 {
			return r.stay()
		}
		r.lookSooner(surplus)
		if r.random.Float64()*r.chance >= surplus {
			return r.stay()
		}
		return r.move()
	case completing:
		return r.checked(answers)
	default:
		return r.stay()
	}
}

// lookSooner has the next look come soon.
func (r *Rebalancer) lookSooner(surplus float64) {
	part := soonerPart
	if few := surplus * float64(r.table[0].count); few > 0 && few <= fewTooMany {
		part = soonestPart
	}
	r.next = r.now + r.around(r.config.Interval/time.Duration(part))
}

// Waited says that the wait is over.
func (r *Rebalancer) Waited() Action {
	if r.phase != pausing {
		return r.stay()
	}
	return r.ask(lookingAgain, confirmSize)
}

// Reserved tells what came of the reservation.
func (r *Rebalancer) Reserved(reply Reply) Action {
	if r.phase != moving {
		return r.stay()
	}
	target := &r.table[r.at]
	switch {
	case reply.Refused:
		target.count = max(reply.Count, target.count+1)
		return r.move()
	case !reply.Granted:
		return r.stay()
	case reply.Identified:
		return r.settleAt(reply.Count)
	default: // a stock server says no more: it is asked
		r.phase = completing
		r.asked = append(r.asked[:0], target.index)
		return Action{Kind: Ask, Ask: r.asked}
	}
}

// Settle ends the look early: the client stays.
func (r *Rebalancer) Settle() Action { return r.stay() }

// move asks for a reservation at a server that is below the mean, under the bound that it stays there.
func (r *Rebalancer) move() Action {
	others := r.table[1:]
	r.at = 1 + pour(others, r.even, r.random)
	target := r.table[r.at]
	if target.room(r.even) == 0 || r.tries >= maxMoves {
		return r.stay()
	}
	r.tries++
	r.phase = moving
	return Action{Kind: Reserve, Index: target.index, Bound: target.bound(r.even), Release: None}
}

// checked goes on with what a stock server counts after the reservation there.
func (r *Rebalancer) checked(answers []Answer) Action {
	if len(answers) != 1 || !answers[0].usable() {
		r.trouble = r.now
		return r.stay()
	}
	return r.settleAt(answers[0].Connections)
}

// settleAt moves, unless the count after the reservation speaks against it: too many had the same idea, or the server does not
// count those that come, in which case it is not believed for a while.
func (r *Rebalancer) settleAt(count int) Action {
	target := r.table[r.at]
	if count < 1 || count > grownMost*(target.count+grownAnyway) {
		r.doubt(target.index, 1)
		return r.stay()
	}
	if count > target.limit(r.even) {
		return r.stay()
	}
	r.spend()
	r.phase = over
	return Action{Kind: Done, Index: target.index, Bound: None, Release: None}
}

// spend takes a move from the budget, also when nothing comes of it. Who has moved not long ago rests for longer: what
// makes a client move again and again is not mended by its moves.
func (r *Rebalancer) spend() {
	if r.moved != longAgo && r.now-r.moved < 4*r.rest {
		r.rest = min(2*r.rest, maxRests*r.config.Rest)
	} else {
		r.rest = r.config.Rest
	}
	r.moved = r.now
}

// stay ends the look without a move.
func (r *Rebalancer) stay() Action {
	r.phase = over
	return Action{Kind: Done, Index: None, Bound: None, Release: None}
}

// upTo is a random time below the longest.
func (r *Rebalancer) upTo(longest time.Duration) time.Duration {
	return time.Duration(r.random.Int64N(max(int64(longest), 1)))
}

// around is a random time near the interval.
func (r *Rebalancer) around(interval time.Duration) time.Duration {
	return time.Duration(float64(interval) * (1 - unevenness + 2*unevenness*r.random.Float64()))
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import (
	"time"

	"github.com/evenkeel-go/evenkeel/internal/extension"
)

// Config says what is to be decided, and how.
type Config struct {
	// Weights are those of the candidates as their SRV records have them; there is one candidate for each. Shares tells
	// how they count. The slice is only read, and can serve many machines.
	Weights []uint16
	// MaxJitter is the upper end of the random wait before anything is asked. 0 means that there are no waits, of any
	// kind: how many decide at once is then known of servers only that tell it.
	MaxJitter time.Duration
	// Reserve says that a client will come. Without it nobody is reserved at, and the decision is the classic one.
	Reserve bool
	// Release says that a reservation can be given up, so that a pick can be corrected.
	Release bool
	// Classic asks for the stock algorithm to the letter: ask all, take the minimum, reserve.
	Classic bool
}

// whole says that all candidates are asked at once and the minimum of them wins.
func (c *Config) whole() bool { return c.Classic || !c.Reserve }

// The numbers of the algorithm. docs/balancing.md tells what came of others.
const (
	// sampleSize is how many candidates are asked first; all of them where there are no more.
	sampleSize = 8
	// Servers that do not tell their rate are asked again after secondLeast and a random time of up to secondSpan and
	// so many round trips; secondMost bounds those.
	secondLeast  = 10 * time.Millisecond
	secondSpan   = 60 * time.Millisecond
	secondRounds = 4
	secondMost   = 400 * time.Millisecond
	// stockCaution is by how much more water is poured than two counts tell of: they tell of what has been, and the
	// crowd grows.
	stockCaution = 1.2
	// A crowd is large where so many come to each server of the table. Of such a crowd a server gets drawMost times its
	// part at most.
	largeCrowd = 2
	drawMost   = 2
	// maxTries bounds the reservations of which a bound may refuse all but the last one, which has none.
	maxTries = 4
	// crowdAtOne is how many have to come to one server within a round trip to be a crowd that nobody told of.
	crowdAtOne = 4
	// A pick is corrected after a random time of up to lingerSpan and so many round trips, lingerMost at most.
	lingerSpan   = 80 * time.Millisecond
	lingerRounds = 10
	lingerMost   = time.Second
	// maxMoves bounds the other servers that one correction tries.
	maxMoves = 2
)

// Bounds of what is taken for true. A probe takes 2 s at most, and no server has seen more.
const (
	maxRate     = extension.MaxRate
	maxAge      = 10 * time.Second
	maxCapacity = extension.MaxCapacity
	maxBound    = extension.MaxBound
)

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/internal/decide"
)

// Reselect selects a server anew, now, and moves the session there before it leaves the old one: running calls go on
// for up to 30 s, new ones go to the new server. It returns nil when that is done, or when the selection led to the
// server that the session is on, as it does where moving would not leave the busier of the two servers less busy, in
// proportion to their weights or capacities. When no other server can be reached the session stays, and the error says
// why. While the Conn backs off, Reselect ends the wait. It returns ErrClosed on a closed Conn, and when ctx is done an
// error that holds the context's; the move then still takes place.
//
// Nobody waits for jitter here. Whoever moves a fleet spreads the calls over time: of clients that select at the same
// moment each sees the counts that all others see, and they move to the same server.
func (c *Conn) Reselect(ctx context.Context) error {
	reply := make(chan error, 1)
	select {
	case c.moves <- reply:
	case <-c.done:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("evenkeel: reselect: %w", ctx.Err())
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return fmt.Errorf("evenkeel: reselect: %w", ctx.Err())
	}
}

// worthMoving says whether a selection is a reason to leave the server with the Addr of own, which counts this client
// too: moving must leave the busier of the two less busy than it is now. How busy a server is is what least-connections
// goes by: its count in proportion to its share.
func worthMoving(selection balance.Selection, own string) bool {
	picked := selection.Endpoint.Addr()
	if picked == own {
		return false
	}
	all := selection.Observations
	weights := make([]uint16, len(all))
	var indexes, capacities []int
	here, there := -1, -1 // in indexes
	for i := range all {
		weights[i] = all[i].Endpoint.Weight
		load := all[i].Count.Load
		if all[i].Err != nil || load != nil && load.Draining {
			continue
		}
		switch all[i].Endpoint.Addr() {
		case own:
			here = len(indexes)
		case picked:
			there = len(indexes)
		}
		capacity := 0
		if load != nil {
			capacity = load.Capacity
		}
		indexes, capacities = append(indexes, i), append(capacities, capacity)
	}
	if here < 0 || there < 0 {
		return true // there is nothing to compare
	}
	shares := decide.Shares(weights, indexes, capacities)
	count := func(at int) uint64 { return uint64(max(all[indexes[at]].Count.Connections, 0)) }
	// (there+1)/share < here/share, exactly
	thereHigh, thereLow := bits.Mul64(count(there)+1, shares[here])
	hereHigh, hereLow := bits.Mul64(count(here), shares[there])
	return thereHigh < hereHigh || thereHigh == hereHigh && thereLow < hereLow
}

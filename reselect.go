// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/evenkeel-go/evenkeel/balance"
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
// goes by: its count in proportion to its weight, or to its capacity where all that answered have told one.
func worthMoving(selection balance.Selection, own string) bool {
	picked := selection.Endpoint.Addr()
	var here, there *balance.Observation
	told := true
	for i := range selection.Observations {
		o := &selection.Observations[i]
		if o.Err != nil || o.Count.Load != nil && o.Count.Load.Draining {
			continue
		}
		told = told && o.Count.Load != nil && o.Count.Load.Capacity > 0
		switch o.Endpoint.Addr() {
		case own:
			here = o
		case picked:
			there = o
		}
	}
	if picked == own || here == nil || there == nil {
		return picked != own
	}
	// (there+1)/share < here/share, exactly
	thereHigh, thereLow := bits.Mul64(clientsOf(there)+1, shareOf(here, told))
	hereHigh, hereLow := bits.Mul64(clientsOf(here), shareOf(there, told))
	return thereHigh < hereHigh || thereHigh == hereHigh && thereLow < hereLow
}

func clientsOf(o *balance.Observation) uint64 { return uint64(max(o.Count.Connections, 0)) }

// shareOf is a server's part of the clients in proportion to others: its capacity, or its weight in tenths, of which weight
// 0 has one.
func shareOf(o *balance.Observation, byCapacity bool) uint64 {
	if byCapacity {
		return uint64(o.Count.Load.Capacity)
	}
	return max(1, 10*uint64(o.Endpoint.Weight))
}

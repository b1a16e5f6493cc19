// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"fmt"
)

// Reselect selects a server anew, now, and moves the session there before it leaves the old one: running calls go on
// for up to 30 s, new ones go to the new server. It returns nil when that is done, or when the selection led to the
// server that the session is on, as it does where moving would not leave the busier of the two servers less busy. When
// no other server can be reached the session stays, and the error says why. While the Conn backs off, Reselect ends the
// wait. It returns ErrClosed on a closed Conn, and when ctx is done an error that holds the context's; the move then
// still takes place.
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

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import "net"

// SetSystemForTest replaces the resolver of names that no name server was given for. It is called before the channel is
// used.
func (c *Channel) SetSystemForTest(system *net.Resolver) { c.system = system }

// SetRollForTest says which share of the clients the channel belongs to, 1 to 100.
func (c *Channel) SetRollForTest(roll int) { c.roll = roll }

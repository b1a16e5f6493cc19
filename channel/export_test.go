// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import "net"

// SetSystemForTest replaces the resolver of names that no name server was given for. It is called before the channel is
// used.
func (c *Channel) SetSystemForTest(system *net.Resolver) { c.system = system }

// SetRollForTest says which share of the clients the channel belongs to, 1 to 100.
func (c *Channel) SetRollForTest(roll int) { c.roll = roll }

// AtWork is what the resolver of a channel knows of the policy.
type AtWork struct{ Ours, Unusable bool }

// AtWorkForTest returns that of the one resolver there is; the zero value when there is none.
func (c *Channel) AtWorkForTest() AtWork {
	for _, r := range c.resolvers() {
		r.mu.Lock()
		defer r.mu.Unlock()
		return AtWork{Ours: r.ours, Unusable: r.told && !r.usable}
	}
	return AtWork{}
}

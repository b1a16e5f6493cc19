// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"strings"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// An endpoint is the set of its addresses, and a set changes its shape when one of them comes or goes: a name with one A
// and one AAAA record is one endpoint of two addresses, with a second A record it is three endpoints of one. The server at
// the other end of a connection is the same in both answers. So the connection goes to the new endpoint that has its
// address, and what cannot go on in the set, because there is one endpoint now for what were two, ends by itself.

// noteAddressLocked notes which of the endpoint's addresses it has a connection to.
func (c *child) noteAddressLocked(address resolver.Address) {
	switch key := addressKey(address); {
	case !strings.Contains(c.key, addressSeparator):
		c.at = c.key // whatever a proxy has made of it
	case hasAddress(c.key, key):
		c.at = key
	default:
		c.at = ""
	}
}

// connected says that a connection is there, healthy or not, with or without calls.
func (c *child) connected() bool {
	return c.at != "" && c.conn != nil && c.conn.raw[connectivity.Ready] > 0
}

// inheritLocked gives new endpoints the connections of those whose place they take.
func (p *policy) inheritLocked(set []member, wanted map[string]bool) {
	orphans := p.orphansLocked(wanted)
	if len(orphans) == 0 {
		return
	}
	for _, m := range set {
		if p.children[m.key] != nil || p.draining[m.key] != nil {
			continue
		}
		for address := range strings.SplitSeq(m.key, addressSeparator) {
			if c := orphans[address]; c != nil {
				delete(orphans, address)
				p.renameLocked(c, m)
				break
			}
		}
	}
}

// orphansLocked returns the connected children that are not in the set, by the address that they are connected to.
func (p *policy) orphansLocked(wanted map[string]bool) map[string]*child {
	var orphans map[string]*child
	for _, children := range []map[string]*child{p.draining, p.children} { // those that get calls come before the others
		for key, c := range children {
			if wanted[key] || !c.connected() {
				continue
			}
			if orphans == nil {
				orphans = make(map[string]*child)
			}
			orphans[c.at] = c
		}
	}
	return orphans
}

// renameLocked makes a child another endpoint. Its connection and its calls stay.
func (p *policy) renameLocked(c *child, m member) {
	if c.level == nil {
		delete(p.draining, c.key)
		p.draining[m.key] = c
	} else {
		delete(p.children, c.key)
		p.children[m.key] = c
	}
	c.key = m.key
	if c.addr == m.addr {
		return
	}
	if c.level == nil {
		c.addr = m.addr
		return
	}
	p.tellEndpointLocked(c, connectivity.Shutdown)
	c.addr = m.addr
	p.tellEndpointLocked(c, c.state)
}

// limitDrainsLocked gives every drain its end, but those of connections to an address that is in the set: nothing but
// the shape of the set has changed for them.
func (p *policy) limitDrainsLocked(set []member) {
	if len(p.draining) == 0 {
		return
	}
	addresses := make(map[string]bool, len(set))
	for _, m := range set {
		for address := range strings.SplitSeq(m.key, addressSeparator) {
			addresses[address] = true
		}
	}
	for key, c := range p.draining {
		switch stays := addresses[c.at]; {
		case c.tether.slack():
			delete(p.draining, key)
			c.stopDrain()
			p.stopLocked(c)
		case stays:
			c.stopDrain()
		case c.drain == nil:
			p.timeDrainLocked(c)
		}
	}
}

// hasAddress says whether an address is one of an endpoint's.
func hasAddress(endpoint, address string) bool {
	for each := range strings.SplitSeq(endpoint, addressSeparator) {
		if each == address {
			return true
		}
	}
	return false
}

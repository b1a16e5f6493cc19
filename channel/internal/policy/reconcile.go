// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/resolver"
)

// member is an endpoint that a resolver names, by its key.
type member struct {
	key      string
	addr     string // the first address that the resolver named
	endpoint resolver.Endpoint
}

// newSet reads the endpoints of a state, without those that have no address and those that come twice. Addresses alone
// are one endpoint each.
func newSet(state resolver.State) []member {
	endpoints := state.Endpoints
	if len(endpoints) == 0 {
		for _, address := range state.Addresses {
			endpoints = append(endpoints, resolver.Endpoint{
				Addresses:  []resolver.Address{address},
				Attributes: address.BalancerAttributes, //nolint:staticcheck // that is where addresses alone have their weight
			})
		}
	}
	set := make([]member, 0, len(endpoints))
	seen := make(map[string]bool, len(endpoints))
	named := originOf(state, endpoints)
	for i, endpoint := range endpoints {
		key := keyOf(named[i])
		if key != "" && len(endpoint.Addresses) > 0 && !seen[key] {
			seen[key] = true
			set = append(set, member{key: key, addr: named[i].Addresses[0].Addr, endpoint: restore(endpoint, named[i])})
		}
	}
	return set
}

// addressSeparator stands between the addresses in the key of an endpoint.
const addressSeparator = "\x00"

// keyOf says which endpoint it is: the set of its addresses, each with the name its server is to prove. The order does
// not matter and attributes do not. No addresses make an empty key.
func keyOf(endpoint resolver.Endpoint) string {
	if len(endpoint.Addresses) == 1 {
		return addressKey(endpoint.Addresses[0])
	}
	keys := make([]string, 0, len(endpoint.Addresses))
	for _, address := range endpoint.Addresses {
		keys = append(keys, addressKey(address))
	}
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), addressSeparator)
}

func addressKey(address resolver.Address) string {
	if address.ServerName == "" {
		return address.Addr
	}
	return address.Addr + "\x01" + address.ServerName
}

// reconcileLocked changes only what differs between the children and the set. It says whether the endpoints in rotation
// have changed.
func (p *policy) reconcileLocked(set []member) bool {
	wanted := make(map[string]bool, len(set))
	for _, m := range set {
		wanted[m.key] = true
	}
	p.inheritLocked(set, wanted)
	stale := p.dropLocked(wanted)
	var joined []*child
	for _, m := range set {
		c := p.children[m.key]
		if c == nil {
			c = p.admitLocked(m)
			joined = append(joined, c)
		}
		c.endpoint = m.endpoint
		if w := weight.FromEndpoint(m.endpoint).Weight; w != c.weight {
			c.weight = w
			stale = stale || c.link != nil
		}
	}
	p.limitDrainsLocked(set)
	// Clients that start together with the same records neither dial nor walk in the same order.
	rand.Shuffle(len(joined), func(i, j int) { joined[i], joined[j] = joined[j], joined[i] })
	p.order = append(p.order, joined...)
	stale = p.rankLocked() || stale
	p.syncLevelsLocked()
	for _, c := range p.order {
		switch {
		case c.level.awake && c.conn == nil:
			p.startLocked(c)
		case !c.level.awake && c.conn != nil && c.sc == nil:
			p.sleepLocked(c)
		}
		p.linkLocked(c)
		p.retryLocked(c)
	}
	return stale
}

// admitLocked makes a child of a new endpoint, or takes back one that is draining, with its connection.
func (p *policy) admitLocked(m member) *child {
	c := p.draining[m.key]
	if c != nil {
		c.stopDrain()
		delete(p.draining, m.key)
		p.tellEndpointLocked(c, c.state)
	} else {
		c = &child{key: m.key, addr: m.addr, told: connectivity.Shutdown, load: newLoad(), tether: &tether{}}
	}
	p.children[m.key] = c
	return c
}

// dropLocked removes the children that are not in the set. It says whether any was in rotation.
func (p *policy) dropLocked(wanted map[string]bool) bool {
	stale := false
	p.order = slices.DeleteFunc(p.order, func(c *child) bool {
		if wanted[c.key] {
			return false
		}
		stale = stale || c.link != nil
		p.drainLocked(c)
		return true
	})
	return stale
}

// drainLocked takes an endpoint out of the set. From here on it gets no call and is not dialled; its connections stay
// for the calls that are on them, and in case it comes back, until limitDrainsLocked says.
func (p *policy) drainLocked(c *child) {
	delete(p.children, c.key)
	if c.link != nil {
		c.link.dead.Store(true)
		c.link = nil
	}
	c.level = nil
	if c.sc == nil && (c.conn == nil || c.conn.raw[connectivity.Ready] == 0) {
		p.stopLocked(c)
		c.state, c.err = connectivity.Idle, nil
	}
	p.tellEndpointLocked(c, connectivity.Shutdown)
	p.draining[c.key] = c
}

// timeDrainLocked has a drain end in due time.
func (p *policy) timeDrainLocked(c *child) {
	c.drains++
	nth := c.drains
	c.drain = time.AfterFunc(p.config.drain, func() { p.drained(c, nth) })
}

// stopDrain takes the end of a drain back.
func (c *child) stopDrain() {
	if c.drain != nil {
		c.drain.Stop()
		c.drain = nil
	}
}

// drained ends what is left of the nth drain. A timer may have fired when the endpoint was taken back.
func (p *policy) drained(c *child, nth int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.draining[c.key] != c || c.drains != nth {
		return
	}
	delete(p.draining, c.key)
	p.stopLocked(c)
	p.work.do(c.tether.cut) // after stopLocked's part, so that the loss of the connection is nobody's
}

// rankLocked sorts the children into levels. It says whether one that may get calls has another level than before.
func (p *policy) rankLocked() bool {
	known := make(map[uint16]*level, len(p.levels))
	for _, l := range p.levels {
		l.children, l.ready, l.failed = l.children[:0], 0, 0
		known[l.priority] = l
	}
	moved := false
	for _, c := range p.order {
		priority := Priority(c.endpoint)
		l := known[priority]
		if l == nil {
			l = &level{priority: priority}
			known[priority] = l
			p.levels = append(p.levels, l)
		}
		moved = moved || c.link != nil && c.level != l
		c.level = l
		l.children = append(l.children, c)
		l.tally(c.state, 1)
	}
	p.levels = slices.DeleteFunc(p.levels, func(l *level) bool {
		if len(l.children) == 0 {
			l.stopTimer()
		}
		return len(l.children) == 0
	})
	slices.SortFunc(p.levels, func(a, b *level) int { return cmp.Compare(a.priority, b.priority) })
	return moved
}

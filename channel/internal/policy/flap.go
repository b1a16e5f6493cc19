// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"time"

	"google.golang.org/grpc/connectivity"
)

const (
	flapSpan     = 250 * time.Millisecond // a connection that lived less is a flap
	flapBackoff  = 100 * time.Millisecond // after the second flap in a row, then doubling
	maxFlapShift = 7                      // up to 12.8 s
	maxQueued    = time.Second            // for which calls wait at most because of flaps
)

// A connection that was ready and ends, be it soon, is no failure of its endpoint: servers limit the age of connections,
// and say goodbye before they end one. So it is made again, and calls wait for it when there is no other. Only flaps in a
// row are paced. A connection that is closed before it was ready never helps a call, and such an endpoint has failed.

// lostLocked has an endpoint dialled again whose connection is lost: at once, unless its connections do not last.
func (p *policy) lostLocked(c *child) {
	conn, helped := c.conn, c.state == connectivity.Ready
	if helped && time.Since(c.since) >= flapSpan {
		c.flaps = 0
	} else {
		c.flaps++
	}
	c.sc, c.lost = nil, time.Now()
	switch {
	case c.level == nil || !c.level.awake:
		p.stopLocked(c)
		p.setStateLocked(c, connectivity.Idle, nil)
	case c.flaps < 2:
		p.setStateLocked(c, connectivity.Connecting, nil)
		p.work.do(conn.reconnect)
	case helped:
		p.setStateLocked(c, connectivity.Connecting, nil)
		p.pauseLocked(c)
	default:
		if c.state != connectivity.TransientFailure { // else there is a better reason: it is not healthy
			p.setStateLocked(c, connectivity.TransientFailure, errFlapping)
		}
		p.pauseLocked(c)
	}
}

// pauseLocked has an endpoint wait before it is dialled again. While no endpoint is ready calls wait with it.
func (p *policy) pauseLocked(c *child) {
	span := flapBackoff << min(c.flaps-2, maxFlapShift)
	if c.state == connectivity.Connecting && p.viewLocked().state != connectivity.Ready {
		span = min(span, maxQueued)
	}
	p.resumeLocked(c, span)
}

// resumeLocked has an endpoint dialled again after a time, and forgets the time that it had.
func (p *policy) resumeLocked(c *child, after time.Duration) {
	c.stopPause()
	conn := c.conn
	var timer *time.Timer
	timer = time.AfterFunc(after, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if c.pause == timer {
			c.pause = nil
			p.work.do(conn.reconnect)
		}
	})
	c.pause = timer
}

// stopPause forgets the timer; one that has fired already finds that it is not the endpoint's.
func (c *child) stopPause() {
	if c.pause != nil {
		c.pause.Stop()
		c.pause = nil
	}
}

// hurryAllLocked is called when the last ready endpoint is lost: others that have long pauses are waited for now.
func (p *policy) hurryAllLocked() {
	for _, c := range p.order {
		if c.pause != nil && c.state == connectivity.Connecting && flapBackoff<<min(c.flaps-2, maxFlapShift) > maxQueued {
			p.resumeLocked(c, time.Until(c.lost.Add(maxQueued)))
		}
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && unix

package test_test

import (
	"context"
	"time"

	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

const (
	// stormStrikes are how many things happen in a storm, and chaosPause the longest time between two of them.
	stormStrikes = 20
	chaosPause   = 1200 * time.Millisecond
	strikeKinds  = 9
)

// strike is what the seed says about the next thing that happens. All of it is drawn each time, so that what comes later
// does not depend on what a strike meets.
type strike struct {
	server, kind, variant int
	pause                 time.Duration
}

func (c *chaos) draw() strike {
	return strike{
		server: c.rand.IntN(chaosServers), kind: c.rand.IntN(strikeKinds), variant: c.rand.IntN(6),
		pause: time.Duration(c.rand.Int64N(int64(chaosPause))),
	}
}

// storm does one thing after the other.
func (c *chaos) storm(ctx context.Context) {
	c.t.Helper()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for range stormStrikes {
		select {
		case <-timer.C:
		case <-ctx.Done():
			c.t.Fatal(ctx.Err())
		}
		next := c.draw()
		c.cluster.reap()
		c.strike(ctx, next)
		c.strikes.Add(1)
		timer.Reset(next.pause)
	}
}

// strike ends what is wrong with a server, or makes it worse, or begins something with one that is well while another one
// is.
func (c *chaos) strike(ctx context.Context, next strike) {
	c.t.Helper()
	s := c.cluster.servers[next.server]
	switch {
	case next.kind == strikeKinds-1:
		c.disturbDNS(next.variant)
	case s.condition == stopped && next.variant == 0:
		c.did("kill while stopped", s)
		c.cluster.kill(s)
	case s.condition == stopped:
		c.did("continue", s)
		c.cluster.recover(ctx, s)
	case s.condition == stalled:
		c.did("resume", s)
		c.cluster.recover(ctx, s)
	case s.condition == down:
		c.did("start", s)
		c.cluster.recover(ctx, s)
	case s.condition == draining && next.variant < 2:
		c.did("kill while draining", s)
		c.cluster.kill(s)
	case s.condition == draining:
		c.did("leave to drain", s)
	case s.place != listed:
		c.did("list again", s)
		s.place = listed
		c.cluster.publish()
	case c.cluster.serving() < 2:
		c.did("spare the last one", s)
	default:
		c.disturb(ctx, s, next)
	}
}

// disturb begins something with a server that is well.
func (c *chaos) disturb(ctx context.Context, s *chaosServer, next strike) {
	c.t.Helper()
	switch next.kind {
	case 0:
		c.did("kill", s)
		c.cluster.kill(s)
	case 1:
		c.did("restart at once", s)
		c.cluster.kill(s)
		c.cluster.start(ctx, s)
	case 2:
		c.did("drain", s)
		s.drain()
	case 3:
		c.did("stop", s)
		s.freeze()
	case 4:
		c.stall(s, next.variant)
	case 5:
		c.did("reset the connections", s)
		s.relay.Reset()
	case 6:
		c.did("replace", s)
		c.cluster.remove(s)
		c.cluster.add(ctx)
	case 7:
		c.did("change the records", s)
		s.place = []place{backup, absent}[next.variant%2]
		c.cluster.publish()
	}
}

// stall stalls one way or both.
func (c *chaos) stall(s *chaosServer, variant int) {
	c.t.Helper()
	switch variant {
	case 0:
		c.did("stall the way to the server", s)
		s.stall(evenkeeltest.ToServer)
	case 1:
		c.did("stall the way back", s)
		s.stall(evenkeeltest.ToClient)
	default:
		c.did("stall", s)
		s.stall()
	}
}

// disturbDNS begins or ends a fault of the name server.
func (c *chaos) disturbDNS(variant int) {
	c.t.Helper()
	faults := []evenkeeltest.DNSFault{{}, {}, {Code: "SERVFAIL"}, {Truncate: true}, {Delay: 500 * time.Millisecond}, {Silent: true}}
	c.did("change what the name server does", nil)
	if err := c.cluster.dns.SetFault("", "", faults[variant]); err != nil {
		c.t.Fatal(err)
	}
}

// heal ends everything that is wrong.
func (c *chaos) heal(ctx context.Context) {
	c.t.Helper()
	c.cluster.dns.ClearFaults()
	for _, s := range c.cluster.servers {
		s.place = listed
		c.cluster.recover(ctx, s)
	}
	c.cluster.publish()
	c.cluster.awaitDrained(ctx)
	for _, s := range c.cluster.servers {
		c.cluster.recover(ctx, s)
	}
}

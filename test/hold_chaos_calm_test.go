// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && unix

package test_test

import (
	"context"
	"maps"
	"slices"
	"time"

	keel "github.com/evenkeel-go/evenkeel"
)

const (
	// chaosLook is how often all are asked whether they agree.
	chaosLook = 50 * time.Millisecond
	// aftermath is how long the last fault may still cost sessions: longer than one lasts that is not answered.
	aftermath = 6 * time.Second
	// stillFor is how long nothing may happen by itself in a calm.
	stillFor = 2 * time.Second
	// levelLimit bounds the rebalancing: clients that hold a failure against a server go there when its penalty is over.
	levelLimit = 60 * time.Second
	levelPause = time.Second
	// starved is by how much this process is late when the machine does not give it its time. Sessions need some of it
	// each second, in this process and in those of the servers.
	starved = 1500 * time.Millisecond
)

// tight is the aim of the rebalancing: ceil(1.05 × mean).
func tight(clients, servers int) int { return (105*clients + 100*servers - 1) / (100 * servers) }

// calm ends all faults, and looks whether all is well.
func (c *chaos) calm(ctx context.Context) {
	c.t.Helper()
	began := time.Now()
	c.heal(ctx)
	c.awaitAgreement(ctx)
	c.figures.healed = append(c.figures.healed, time.Since(began))
	c.pause(ctx, aftermath)
	c.awaitAgreement(ctx)
	c.figures.after = append(c.figures.after, c.percent(chaosServers))
	held := c.level(ctx)
	c.awaitAgreement(ctx)
	c.checkSpread("rebalanced", nil, held)
	c.figures.levels = append(c.figures.levels, c.percent(chaosServers))
	c.keepStill(ctx)
}

// level is an operator's rebalancing: a client of the fullest server at a time is asked to select anew, until the fleet is
// even or nobody goes any more. Nobody loses a session by it. It returns the clients that were asked last, and stayed.
func (c *chaos) level(ctx context.Context) map[*chaosClient]bool {
	c.t.Helper()
	began, before := time.Now(), tallyOf(c.clients)
	c.lag.reset()
	asked := make(map[*chaosClient]bool)
	for {
		full := c.fullestServer()
		if len(full) <= tight(len(c.clients), chaosServers) {
			break
		}
		next := slices.IndexFunc(full, func(client *chaosClient) bool { return !asked[client] })
		if next >= 0 {
			c.move(ctx, full[next], asked)
			continue
		}
		if len(full) <= even(len(c.clients)/chaosServers) || time.Since(began) > levelLimit {
			break
		}
		c.pause(ctx, levelPause)
		clear(asked)
	}
	c.figures.leveled = append(c.figures.leveled, time.Since(began))
	if after := tallyOf(c.clients); after.lost != before.lost && c.lag.worst() < starved {
		c.t.Errorf("%d sessions were lost while clients were moved", after.lost-before.lost)
	}
	return asked
}

// move asks a client to select anew.
func (c *chaos) move(ctx context.Context, client *chaosClient, asked map[*chaosClient]bool) {
	c.t.Helper()
	from := client.conn.Server().Addr()
	if err := client.conn.Reselect(ctx); err != nil {
		c.t.Errorf("a client of %s, which is well among servers that are, cannot select anew: %v", from, err)
		asked[client] = true
		return
	}
	if client.conn.Server().Addr() == from {
		c.figures.stayed++
		asked[client] = true
		return
	}
	c.figures.moved++
}

// byServer are the clients that have a session, by server.
func (c *chaos) byServer() map[string][]*chaosClient {
	on := make(map[string][]*chaosClient)
	for _, client := range c.clients {
		if client.conn.State() == keel.StateReady {
			addr := client.conn.Server().Addr()
			on[addr] = append(on[addr], client)
		}
	}
	return on
}

// fullestServer are the clients of the server with the most.
func (c *chaos) fullestServer() []*chaosClient {
	on := c.byServer()
	var full []*chaosClient
	for _, addr := range slices.Sorted(maps.Keys(on)) {
		if len(on[addr]) > len(full) {
			full = on[addr]
		}
	}
	return full
}

// keepStill waits, and nothing happens. A machine that keeps everybody from their work for seconds may cost a session: then
// it is looked at again.
func (c *chaos) keepStill(ctx context.Context) {
	c.t.Helper()
	for range 3 {
		c.lag.reset()
		before := tallyOf(c.clients)
		c.pause(ctx, stillFor)
		after := tallyOf(c.clients)
		if after == before {
			return
		}
		if late := c.lag.worst(); late < starved {
			c.t.Errorf("in a calm of %v, in which this process was late by %v at most, it was %+v and then %+v", stillFor, ms(late), before, after)
			return
		}
		c.awaitAgreement(ctx)
	}
	c.t.Log("the machine is too busy to tell whether clients keep still")
}

// blow strikes one server of a fleet that is well. Its clients go to the others, without help, and evenly.
func (c *chaos) blow(ctx context.Context) {
	c.t.Helper()
	next := c.draw()
	s := c.cluster.servers[next.server]
	began, before := time.Now(), c.byServer()
	c.lag.reset()
	what := []string{"kill", "stop", "drain", "stall"}[next.kind%4]
	c.did("blow: "+what, s)
	switch what {
	case "kill":
		c.cluster.kill(s)
	case "stop":
		s.freeze()
	case "drain":
		s.drain()
	case "stall":
		s.stall()
	}
	c.awaitAgreement(ctx)
	c.figures.took = append(c.figures.took, time.Since(began))
	c.figures.settled[what] = append(c.figures.settled[what], c.percent(chaosServers-1))
	displaced := make(map[*chaosClient]bool)
	for _, client := range before[s.addr()] {
		displaced[client] = true
	}
	delete(before, s.addr())
	c.checkSpread("blow: "+what+" "+s.name, before, displaced)
}

// percent is how many clients the fullest of so many servers has, in percent of the mean.
func (c *chaos) percent(servers int) int {
	return 100 * servers * len(c.fullestServer()) / len(c.clients)
}

// pause waits.
func (c *chaos) pause(ctx context.Context, d time.Duration) {
	c.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		c.t.Fatal(ctx.Err())
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/internal/decide"
)

const (
	// probeTimeout is how long a silent server is waited for, and dialTimeout how long it is dialled.
	probeTimeout = 2 * time.Second
	dialTimeout  = 5 * time.Second
	// dialRounds is how many round trips lie between the pick and Connect: TCP and TLS.
	dialRounds = 2
	// A failed attempt is followed by a wait of firstBackoff, doubling to mostBackoff.
	firstBackoff = time.Second
	mostBackoff  = 30 * time.Second
)

// client is a simulated client.
type client struct {
	world     *world
	algorithm Algorithm
	turn      int // the next of round-robin; 0 before the first

	penalties *balance.Penalties // nil until a server has failed
	machine   *decide.Machine
	looker    *looker // nil where the client does not rebalance
	stock     bool    // it is of the stock part of a fleet that has both
	failures  int     // attempts in a row
	hurried   bool    // it was told to move: no random waits

	// Of the attempt that runs.
	began   time.Duration
	attempt *balance.Attempt // nil while all servers are candidates
	nodes   []*node          // the candidates
	weights []uint16
	held    *reservation

	on *node // the server of the session; nil without one
	// session counts the sessions, so that what was begun in one can see that it is over.
	session int
}

// begin begins an attempt. lost is the server that was lost or left; nil when there is none.
func (c *client) begin(lost *node) {
	c.attempt = nil
	if lost != nil || c.penalties != nil {
		name := ""
		if lost != nil {
			name = lost.endpoint.Addr()
		}
		c.attempt = balance.NewAttempt(c.world.known, c.penalties, name)
	}
	c.choose()
}

// choose begins a selection among the candidates that are left.
func (c *client) choose() {
	w := c.world
	c.began = w.now
	c.nodes, c.weights = w.listed, w.weights
	if c.attempt != nil {
		c.nodes, c.weights = w.nodesOf(c.attempt.Candidates(w.clock()))
	}
	if len(c.nodes) == 0 {
		c.backOff()
		return
	}
	switch c.algorithm {
	case Random:
		c.decided(c.nodes[decide.Draw(c.weights, w.random)])
	case RoundRobin:
		if c.turn == 0 {
			c.turn = 1 + w.random.IntN(len(c.nodes))
		}
		c.turn++
		c.decided(c.nodes[c.turn%len(c.nodes)])
	case TwoChoices:
		c.takeTwo()
		c.decide(decide.Config{Classic: true})
	case Classic:
		c.decide(decide.Config{Classic: true})
	default:
		c.decide(decide.Config{Release: true})
	}
}

// takeTwo leaves two of the candidates, drawn at random.
func (c *client) takeTwo() {
	if len(c.nodes) <= 2 {
		return
	}
	first, second := c.world.random.IntN(len(c.nodes)), c.world.random.IntN(len(c.nodes)-1)
	if second >= first {
		second++
	}
	c.nodes, c.weights = []*node{c.nodes[first], c.nodes[second]}, []uint16{c.weights[first], c.weights[second]}
}

// decide runs the decision as package balance does.
func (c *client) decide(config decide.Config) {
	config.Weights, config.Reserve = c.weights, true
	if !c.hurried {
		config.MaxJitter = c.world.scenario.Jitter
	}
	c.machine = decide.New(c.world.random)
	c.do(c.machine.Begin(config))
}

// do performs an action of the decision.
func (c *client) do(action decide.Action) {
	switch action.Kind {
	case decide.Wait:
		c.world.after(action.Wait, func() { c.do(c.machine.Waited()) })
	case decide.Ask:
		c.world.ask(c.nodes, action.Ask, func(answers []decide.Answer) { c.do(c.machine.Answered(c.world.now, answers)) })
	case decide.Reserve:
		c.world.reserve(c.nodes[action.Index], action, c.reserved)
	case decide.Done:
		c.machine = nil // most clients decide once
		c.decided(c.nodes[action.Index])
	}
}

// reserved goes on with what came of a reservation. The one that was held before it is given up when the pick has moved.
func (c *client) reserved(reply decide.Reply, made *reservation) {
	w, before := c.world, c.held
	if made != nil {
		c.held = made
	}
	action := c.machine.Reserved(reply)
	if action.Kind == decide.Done && action.Release != decide.None && before != nil {
		w.tally.moves++
		w.tally.requests++
		w.after(before.at.rtt/2, before.end)
	}
	c.do(action)
}

// decided ends the decision and dials the server.
func (c *client) decided(n *node) {
	w := c.world
	w.tally.decided(w.now-c.began, c.stock)
	w.after(n.dialTime(), func() { c.arrive(n) })
}

// arrive is the Connect of the client. It takes the place of its reservation.
func (c *client) arrive(n *node) {
	if n.condition != serving {
		c.failed(n)
		return
	}
	if c.held != nil && c.held.at == n && !c.held.gone {
		c.held.end()
	} else {
		n.rate.Add(c.world.now)
	}
	c.failures, c.hurried = 0, false
	c.world.tally.connected++
	c.enter(n)
}

// enter begins a session.
func (c *client) enter(n *node) {
	n.sessions++
	if c.stock {
		n.stocks++
	}
	c.on, c.held = n, nil
	c.session++
	if c.looker != nil {
		c.looker.decision.Began(c.world.now)
	}
	c.world.changed(n)
}

// leave ends a session.
func (c *client) leave(n *node) {
	n.sessions--
	if c.stock {
		n.stocks--
	}
	c.world.changed(n)
}

// failed leaves the server out and picks again. A reservation that cannot be released stays until it expires.
func (c *client) failed(n *node) {
	w := c.world
	w.release(c.held)
	c.held = nil
	c.penalise(n)
	if c.attempt == nil {
		c.attempt = balance.NewAttempt(w.known, c.penalties, "")
	}
	c.attempt.Failed(n.endpoint)
	w.after(n.rtt/2, c.choose)
}

// penalise remembers that the server has failed.
func (c *client) penalise(n *node) {
	if c.penalties == nil {
		c.penalties = balance.NewPenalties()
	}
	c.penalties.Fail(n.endpoint.Addr(), c.world.clock())
	c.troubled()
}

func (c *client) troubled() {
	if c.looker != nil {
		c.looker.decision.Troubled(c.world.now)
	}
}

// backOff waits before the next attempt: all candidates of this one have failed.
func (c *client) backOff() {
	w := c.world
	wait := min(firstBackoff<<min(c.failures, 10), mostBackoff)
	c.failures++
	w.after(wait/2+time.Duration(w.random.Int64N(int64(wait/2))), func() { c.begin(nil) })
}

// lose ends the session and begins the next attempt.
func (c *client) lose() {
	n := c.on
	c.world.tally.connected--
	c.on = nil
	c.session++
	c.leave(n)
	if !c.hurried {
		c.troubled()
	}
	c.begin(n)
}

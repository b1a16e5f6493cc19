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
	failures  int  // attempts in a row
	hurried   bool // it was told to move: no random waits

	// Of the attempt that runs.
	began   time.Duration
	attempt *balance.Attempt // nil while all servers are candidates
	nodes   []*node          // the candidates
	weights []uint16
	held    *reservation

	on *node // the server of the session; nil without one
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
		c.ask(action.Ask)
	case decide.Reserve:
		c.reserve(c.nodes[action.Index], action)
	case decide.Done:
		c.machine = nil // most clients decide once
		c.decided(c.nodes[action.Index])
	}
}

// ask asks the candidates, all at once, and goes on when the last one has answered or its time is up.
func (c *client) ask(indices []int) {
	w := c.world
	w.tally.requests += len(indices)
	answers := w.blank(len(indices))
	hear := func(i int) {
		n := c.nodes[indices[i]]
		answers[i] = n.answer(w.now)
		answers[i].At, answers[i].RTT = w.now+n.rtt/2, n.rtt
	}
	last := func() {
		action := c.machine.Answered(w.now, answers)
		w.spare = append(w.spare, answers) // the machine has a copy
		c.do(action)
	}
	if w.uniform { // one event for all
		w.after(w.scenario.RTT/2, func() {
			for i := range indices {
				hear(i)
			}
			w.after(w.scenario.RTT/2, last)
		})
		return
	}
	longest := time.Duration(0)
	for i, index := range indices {
		n := c.nodes[index]
		if n.condition == silent {
			longest = probeTimeout
			continue
		}
		longest = max(longest, n.rtt)
		w.after(n.rtt/2, func() { hear(i) })
	}
	w.after(longest, last)
}

// reserve asks for a reservation.
func (c *client) reserve(n *node, action decide.Action) {
	w := c.world
	w.tally.requests++
	lost := w.scenario.LoseReservations > 0 && w.random.Float64() < w.scenario.LoseReservations
	if lost || n.condition == silent {
		w.after(probeTimeout, func() { c.reserved(decide.Reply{}, nil) })
		return
	}
	w.after(n.rtt/2, func() {
		reply, made := n.reserve(w.now, action.Bound, action.Plain)
		if made != nil && w.scenario.forgets() {
			w.after(reservationTTL, made.end)
		}
		w.after(n.rtt/2, func() { c.reserved(reply, made) })
	})
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
	w.tally.decided(w.now - c.began)
	wait := dialRounds*n.rtt + n.rtt/2
	if n.condition == silent {
		wait = dialTimeout
	}
	w.after(wait, func() { c.arrive(n) })
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
	n.sessions++
	c.world.tally.connected++
	c.on, c.held, c.failures, c.hurried = n, nil, 0, false
}

// failed leaves the server out and picks again. The reservation stays at the server until it expires.
func (c *client) failed(n *node) {
	w := c.world
	c.held = nil
	if c.penalties == nil {
		c.penalties = balance.NewPenalties()
	}
	if c.attempt == nil {
		c.attempt = balance.NewAttempt(w.known, c.penalties, "")
	}
	c.attempt.Failed(n.endpoint)
	c.penalties.Fail(n.endpoint.Addr(), w.clock())
	w.after(n.rtt/2, c.choose)
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
	n.sessions--
	c.world.tally.connected--
	c.on = nil
	c.begin(n)
}

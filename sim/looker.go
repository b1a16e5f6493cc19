// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/decide"
)

// restsPerInterval is how many intervals a client rests between two moves, as clients do.
const restsPerInterval = 10

// looker is the part of a client that rebalances.
type looker struct {
	client   *client
	decision *decide.Rebalancer
	moves    int

	// Of the look that runs.
	session int
	nodes   []*node // the own server first
	held    *reservation
}

func newLooker(c *client, interval time.Duration) *looker {
	w := c.world
	config := decide.RebalanceConfig{Interval: interval, Calm: interval, Rest: restsPerInterval * interval}
	return &looker{client: c, decision: decide.NewRebalancer(config, w.random, w.now)}
}

// await plans the next look.
func (l *looker) await() {
	w := l.client.world
	w.after(l.decision.Next()-w.now, l.look)
}

// look begins a look where one makes sense.
func (l *looker) look() {
	c, w := l.client, l.client.world
	if !l.decision.Look(w.now) || c.on == nil {
		l.await()
		return
	}
	others, own, ok := balance.Others(w.known, c.penalties, c.on.endpoint.Addr(), w.clock())
	if !ok {
		l.await()
		return
	}
	l.session, l.held = c.session, nil
	var ballot decide.Ballot
	l.nodes, ballot.Weights = w.nodesOf(append([]discover.Endpoint{own}, others...))
	for _, n := range l.nodes {
		ballot.Names = append(ballot.Names, n.endpoint.Host)
	}
	l.do(l.decision.Begin(w.now, ballot))
}

// do performs an action of the decision. A look ends with its session.
func (l *looker) do(action decide.Action) {
	w := l.client.world
	if l.client.session != l.session {
		action = l.decision.Settle()
	}
	switch action.Kind {
	case decide.Wait:
		w.after(action.Wait, func() { l.do(l.decision.Waited()) })
	case decide.Ask:
		w.ask(l.nodes, action.Ask, func(answers []decide.Answer) { l.do(l.decision.Answered(w.now, answers)) })
	case decide.Reserve:
		w.reserve(l.nodes[action.Index], action, func(reply decide.Reply, made *reservation) {
			l.held = made
			l.do(l.decision.Reserved(reply))
		})
	case decide.Done:
		if action.Index == decide.None {
			w.release(l.held)
			l.await()
			return
		}
		n := l.nodes[action.Index]
		w.after(n.dialTime(), func() { l.arrive(n) })
	}
}

// arrive begins the session on the better server, and then leaves the old one.
func (l *looker) arrive(n *node) {
	c, w := l.client, l.client.world
	defer l.await()
	switch {
	case c.session != l.session: // it was lost meanwhile
		w.release(l.held)
		return
	case n.condition != serving:
		w.release(l.held)
		c.penalise(n)
		return
	}
	if l.held != nil && !l.held.gone {
		l.held.end()
	}
	old := c.on
	c.enter(n)
	l.moves++
	w.later(n.rtt, func() { c.leave(old) })
}

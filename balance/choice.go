// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/decide"
)

// choice is one selection that runs: the loop around the decision, which does the waiting and the asking.
type choice struct {
	lc         *leastConnections
	candidates []discover.Endpoint
	machine    *decide.Machine
	began      time.Time // the decision's clock

	seen  []Observation // of each candidate, the last one
	asked []bool
	held  map[int]Reservation // by candidate
	err   error               // of the last reservation
}

func newChoice(lc *leastConnections, candidates []discover.Endpoint) *choice {
	return &choice{
		lc: lc, candidates: candidates, machine: decide.New(lc.rand), began: time.Now(),
		seen: make([]Observation, len(candidates)), asked: make([]bool, len(candidates)), held: make(map[int]Reservation),
	}
}

// run drives the decision to its end.
func (c *choice) run(ctx context.Context, config decide.Config) (Selection, error) {
	action := c.machine.Begin(config)
	for {
		switch action.Kind {
		case decide.Wait:
			if err := wait(ctx, action.Wait); err != nil {
				return c.endEarly(fmt.Errorf("wait before probing: %w", err))
			}
			action = c.machine.Waited()
		case decide.Ask:
			answers := c.ask(ctx, action.Ask)
			if err := ctx.Err(); err != nil {
				return c.endEarly(fmt.Errorf("probe %d endpoints: %w", len(action.Ask), err))
			}
			action = c.machine.Answered(time.Since(c.began), answers)
		case decide.Reserve:
			action = c.machine.Reserved(c.reserve(ctx, action))
		case decide.Done:
			return c.selection(action), nil
		}
	}
}

// endEarly returns the pick whose reservation is held already, where there is one, else the error.
func (c *choice) endEarly(err error) (Selection, error) {
	if action := c.machine.Settle(); action.Index != decide.None {
		return c.selection(action), nil
	}
	return Selection{}, err
}

// ask asks some of the candidates, and keeps what they said.
func (c *choice) ask(ctx context.Context, indices []int) []decide.Answer {
	some := make([]discover.Endpoint, len(indices))
	for i, index := range indices {
		some[i] = c.candidates[index]
	}
	observations, came := c.lc.probe(ctx, some)
	if observations == nil {
		return nil
	}
	answers := make([]decide.Answer, len(indices))
	for i, index := range indices {
		c.seen[index], c.asked[index] = observations[i], true
		answers[i] = answerOf(&observations[i])
		answers[i].At = came[i].Sub(c.began)
	}
	return answers
}

// answerOf is what a decision knows of an observation.
func answerOf(o *Observation) decide.Answer {
	a := decide.Answer{Known: o.Err == nil, Connections: o.Count.Connections, RTT: o.Count.RTT}
	if load := o.Count.Load; load != nil {
		a.HasRate, a.Rate = !math.IsNaN(load.ArrivalRate), load.ArrivalRate
		a.Capacity, a.Draining = max(load.Capacity, 0), load.Draining
	}
	return a
}

// reserve asks for a reservation, and keeps it.
func (c *choice) reserve(ctx context.Context, action decide.Action) decide.Reply {
	request := ReserveRequest{Identify: !action.Plain}
	if action.Bound != decide.None {
		request.Bound = action.Bound
	}
	made, err := c.lc.reserve(ctx, c.endpoint(action.Index), request)
	c.err = err
	if err != nil {
		return decide.Reply{}
	}
	if made.Made {
		c.held[action.Index] = made
	}
	return decide.Reply{Granted: made.Made, Refused: made.Refused && !made.Made, Identified: made.ID != "", Count: made.Count}
}

// endpoint is a candidate, narrowed to the address that its probe connected on.
func (c *choice) endpoint(index int) discover.Endpoint {
	endpoint := c.candidates[index]
	if addr := c.seen[index].Count.Addr; addr.IsValid() {
		endpoint.Addrs = []netip.AddrPort{addr}
	}
	return endpoint
}

// selection is the end of it. All reservations but that of the pick are given up.
func (c *choice) selection(action decide.Action) Selection {
	for index, reservation := range c.held {
		if index != action.Index {
			c.lc.release(c.endpoint(index), reservation.ID)
		}
	}
	s := Selection{Endpoint: c.endpoint(action.Index), Reservation: c.held[action.Index], Waited: true}
	if !s.Reservation.Made {
		s.ReserveErr = c.err
	}
	for index, asked := range c.asked {
		if asked {
			s.Observations = append(s.Observations, c.seen[index])
		}
	}
	return s
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/decide"
)

// decider makes a decision, one action after the other.
type decider interface {
	Waited() decide.Action
	Answered(now time.Duration, answers []decide.Answer) decide.Action
	Reserved(reply decide.Reply) decide.Action
	Settle() decide.Action
}

// choice is one decision that runs: the loop around it, which does the waiting and the asking.
type choice struct {
	asker      *asker
	candidates []discover.Endpoint
	machine    decider
	clock      time.Time // when the decision's time was 0

	seen  []Observation // of each candidate, the last one
	asked []bool
	held  map[int]Reservation // by candidate
	err   error               // of the last reservation
}

func newChoice(a *asker, machine decider, candidates []discover.Endpoint, clock time.Time) *choice {
	return &choice{
		asker: a, candidates: candidates, machine: machine, clock: clock,
		seen: make([]Observation, len(candidates)), asked: make([]bool, len(candidates)), held: make(map[int]Reservation),
	}
}

// run drives the decision from its first action to its end. It returns errStay where nothing was picked.
func (c *choice) run(ctx context.Context, action decide.Action) (Selection, error) {
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
			action = c.machine.Answered(time.Since(c.clock), answers)
		case decide.Reserve:
			action = c.machine.Reserved(c.reserve(ctx, action))
		case decide.Done:
			selection := c.selection(action)
			if action.Index == decide.None {
				return selection, errStay
			}
			return selection, nil
		}
	}
}

// errStay: nothing was picked, since the client is to stay where it is.
var errStay = errors.New("stay")

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
	observations, came := c.asker.probe(ctx, some)
	if observations == nil {
		return nil
	}
	answers := make([]decide.Answer, len(indices))
	for i, index := range indices {
		c.seen[index], c.asked[index] = observations[i], true
		answers[i] = answerOf(&observations[i])
		answers[i].At = came[i].Sub(c.clock)
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
	made, err := c.asker.reserve(ctx, c.endpoint(action.Index), request)
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
			c.asker.release(c.endpoint(index), reservation.ID)
		}
	}
	s := Selection{Waited: true}
	if action.Index != decide.None {
		s.Endpoint, s.Reservation = c.endpoint(action.Index), c.held[action.Index]
	}
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

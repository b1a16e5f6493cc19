// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/decide"
)

const jitter = 250 * time.Millisecond

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// cluster answers a machine for simulated servers that nobody else comes to, save what grow does.
type cluster struct {
	counts []int
	weight []uint16
	ours   bool
	rate   float64
	rtt    time.Duration
	answer func(index int, a *decide.Answer) // changes an answer; may be nil
	reply  func(index int, r *decide.Reply)  // changes a reply; may be nil
	grow   func()                            // what others do between a look and the reservation; may be nil

	now      time.Duration
	asked    [][]int
	waits    []time.Duration
	reserved []decide.Action
	actions  int
}

// decide drives one decision to its end, and checks that the actions are in order.
func (c *cluster) decide(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, m *decide.Machine, config decide.Config,
) decide.Action {
	t.Helper()
	config.Weights = c.weight
	if config.Weights == nil {
		config.Weights = make([]uint16, len(c.counts))
	}
	c.asked, c.waits, c.reserved, c.actions = nil, nil, nil, 0
	action := m.Begin(config)
	for ; action.Kind != decide.Done; c.actions++ {
		if c.actions > 20 {
			t.Fatalf("no decision after %d actions", c.actions)
		}
		switch action.Kind {
		case decide.Wait:
			c.waits = append(c.waits, action.Wait)
			c.now += action.Wait
			action = m.Waited()
		case decide.Ask:
			action = m.Answered(c.now+c.rtt, c.answers(action.Ask))
			c.now += c.rtt
		case decide.Reserve:
			c.reserved = append(c.reserved, action)
			if c.grow != nil {
				c.grow()
			}
			action = m.Reserved(c.reserve(action))
		}
	}
	return action
}

func (c *cluster) answers(indices []int) []decide.Answer {
	c.asked = append(c.asked, slices.Clone(indices))
	answers := make([]decide.Answer, len(indices))
	for i, index := range indices {
		answers[i] = decide.Answer{Known: true, Connections: c.counts[index], At: c.now + c.rtt, RTT: c.rtt}
		if c.ours {
			answers[i].HasRate, answers[i].Rate = true, c.rate
		}
		if c.answer != nil {
			c.answer(index, &answers[i])
		}
	}
	return answers
}

func (c *cluster) reserve(action decide.Action) decide.Reply {
	var reply decide.Reply
	identified := c.ours && !action.Plain
	if identified && action.Bound != decide.None && c.counts[action.Index] >= action.Bound {
		reply = decide.Reply{Refused: true, Identified: true, Count: c.counts[action.Index]}
	} else {
		c.counts[action.Index]++
		reply = decide.Reply{Granted: true, Identified: identified, Count: c.counts[action.Index]}
	}
	if c.reply != nil {
		c.reply(action.Index, &reply)
	}
	return reply
}

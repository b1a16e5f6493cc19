// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/decide"
)

const (
	// reservationTTL is how long a reservation counts when its client does not come.
	reservationTTL = 30 * time.Second
	// drainPeriod is how long our server takes to move its clients away.
	drainPeriod = 5 * time.Second
	// silenceNoticed is how long a session with a silent server lasts.
	silenceNoticed = 5 * time.Second
)

// world is a simulation that runs.
type world struct {
	queue
	scenario Scenario
	random   *rand.Rand
	nodes    []*node
	clients  []*client
	tally    tally
	pending  int // events of the scenario, and what they have begun

	listed  []*node // those that discovery knows
	weights []uint16
	known   []discover.Endpoint
	uniform bool

	trace *trace            // nil where nobody asks for a history
	even  time.Duration     // since when the fleet is even; never where it is not
	spare [][]decide.Answer // memory for answers
}

// tally counts what the clients did.
type tally struct {
	requests  int
	moves     int
	connected int
	decisions int
	deciding  time.Duration // in all
	slowest   time.Duration

	stockDecisions int // of these, those of stock clients in a fleet that has both
	stockDeciding  time.Duration
}

func (t *tally) decided(took time.Duration, stock bool) {
	if stock {
		t.stockDecisions++
		t.stockDeciding += took
	}
	t.decisions++
	t.deciding += took
	t.slowest = max(t.slowest, took)
}

// stream gives each algorithm random numbers of its own.
func stream(algorithm Algorithm) uint64 { return uint64(slices.Index(Algorithms(), algorithm)) }

func newWorld(s *Scenario, algorithm Algorithm, seed uint64) *world {
	w := &world{scenario: *s, random: rand.New(rand.NewPCG(seed, stream(algorithm))), uniform: s.uniform(), even: never}
	for i := range s.Servers {
		n := &node{
			index: i, rtt: s.rtt(i), capacity: int(s.capacity(i)), stock: algorithm != Evenkeel,
			endpoint: discover.Endpoint{Host: strconv.Itoa(i), Port: 1, Weight: s.capacity(i)},
		}
		if i >= s.Servers-s.Later {
			n.condition = unknown
		}
		w.nodes = append(w.nodes, n)
	}
	w.list()
	for i := range s.Clients {
		c := &client{world: w, algorithm: algorithm}
		// Stock clients and ours in turn, so that none of them are first.
		if part := s.StockClients; int(part*float64(i+1)) > int(part*float64(i)) {
			c.algorithm, c.stock = Classic, true
		}
		if ours := c.algorithm == Evenkeel || c.algorithm == EvenkeelStock; ours && s.Rebalance > 0 {
			c.looker = newLooker(c, s.Rebalance)
			c.looker.await()
		}
		w.clients = append(w.clients, c)
		w.after(0, func() { c.begin(nil) })
	}
	for _, e := range s.Events {
		w.pending++
		w.after(e.At, func() { w.happen(e) })
	}
	return w
}

// eventsBetweenLooks is how many events happen between two looks at the context.
const eventsBetweenLooks = 1 << 12

// run lets happen what happens until then. It ends early when nothing more can, and when ctx is done.
func (w *world) run(ctx context.Context, until time.Duration) {
	for n := 1; !w.settled() && w.next(until); n++ {
		if n%eventsBetweenLooks == 0 && ctx.Err() != nil {
			return
		}
	}
}

// settled says that all clients have a session and that nothing will end one.
func (w *world) settled() bool {
	return w.pending == 0 && w.tally.connected == len(w.clients) && w.scenario.Rebalance == 0
}

// happen lets an event of the scenario happen.
func (w *world) happen(e Event) {
	w.pending--
	n := w.nodes[e.Server]
	defer w.changed(n)
	switch e.Kind {
	case Die:
		w.end(n, down)
	case Hollow:
		w.end(n, hollow)
	case Fall:
		n.condition = silent
		w.later(silenceNoticed, func() { w.end(n, n.condition) })
	case Rise:
		if n.condition != serving {
			w.end(n, serving)
			n.reset()
			w.list()
		}
	case Drain:
		w.drain(n, down)
	case Leave:
		w.drain(n, unknown)
	}
}

// later is after for what comes of an event.
func (w *world) later(wait time.Duration, do func()) {
	w.pending++
	w.after(wait, func() {
		w.pending--
		do()
	})
}

// end changes the condition of a server and ends its sessions at once.
func (w *world) end(n *node, next condition) {
	n.condition = next
	for _, c := range w.clients {
		if c.on == n {
			c.lose()
		}
	}
}

// drain moves the clients of a server away; after that it is in its last condition.
func (w *world) drain(n *node, last condition) {
	if n.stock {
		w.end(n, last)
		w.list()
		return
	}
	n.condition = draining
	var all []*client
	for _, c := range w.clients {
		if c.on == n {
			all = append(all, c)
		}
	}
	w.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, c := range all {
		w.later(drainPeriod*time.Duration(i)/time.Duration(len(all)), func() {
			if c.on == n {
				c.hurried = c.algorithm == Evenkeel
				c.lose()
			}
		})
	}
	w.later(drainPeriod, func() {
		w.end(n, last)
		w.list()
	})
}

// list tells discovery which servers there are.
func (w *world) list() {
	w.listed, w.weights, w.known = nil, nil, nil
	for _, n := range w.nodes {
		if n.condition == unknown {
			continue
		}
		w.listed = append(w.listed, n)
		w.weights = append(w.weights, n.endpoint.Weight)
		w.known = append(w.known, n.endpoint)
	}
}

// nodesOf finds the servers of endpoints that list made, and their weights.
func (w *world) nodesOf(endpoints []discover.Endpoint) (nodes []*node, weights []uint16) {
	for _, endpoint := range endpoints {
		for _, n := range w.listed {
			if n.endpoint.Host == endpoint.Host {
				nodes, weights = append(nodes, n), append(weights, endpoint.Weight)
				break
			}
		}
	}
	return nodes, weights
}

// blank returns so many empty answers.
func (w *world) blank(n int) []decide.Answer {
	for last := len(w.spare) - 1; last >= 0; last-- {
		answers := w.spare[last]
		w.spare = w.spare[:last]
		if cap(answers) >= n {
			answers = answers[:n]
			clear(answers)
			return answers
		}
	}
	return make([]decide.Answer, n)
}

// clock is the virtual time for what reckons in points of time.
func (w *world) clock() time.Time { return time.Unix(0, 0).Add(w.now) }

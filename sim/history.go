// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import "time"

// Moment is a point in the history of a simulation.
type Moment struct {
	At time.Duration
	// Counts are the connected clients of each server.
	Counts []int
	// Mean is how many clients a server that serves has on average; where servers have capacities, for each unit of these.
	// It is 0 while no server serves.
	Mean float64
}

// trace is what a simulation writes down for its history.
type trace struct {
	changes []change
}

// change is what a server was from then on. What is written down of it at the beginning is a change too.
type change struct {
	at       time.Duration
	server   int
	sessions int
	serves   bool
}

// note writes down what has become of a server, unless nobody asks for it.
func (t *trace) note(at time.Duration, n *node) {
	if t != nil {
		t.changes = append(t.changes, change{at: at, server: n.index, sessions: n.sessions, serves: n.condition == serving})
	}
}

// last is when the last change was.
func (t *trace) last() time.Duration { return t.changes[len(t.changes)-1].at }

// history makes so many moments at equal distances, the first at the beginning and the last at the end; of one, it is the
// end.
func (t *trace) history(s *Scenario, end time.Duration, points int) []Moment {
	if points < 1 {
		return nil
	}
	history := make([]Moment, 0, points)
	now, left := make([]change, s.Servers), t.changes
	for i := range points {
		at := end
		if i < points-1 {
			at = end * time.Duration(i) / time.Duration(points-1)
		}
		for len(left) > 0 && left[0].at <= at {
			now[left[0].server], left = left[0], left[1:]
		}
		history = append(history, momentOf(s, at, now))
	}
	return history
}

func momentOf(s *Scenario, at time.Duration, servers []change) Moment {
	m := Moment{At: at, Counts: make([]int, len(servers))}
	sum, capacities := 0, 0
	for i, server := range servers {
		m.Counts[i] = server.sessions
		if server.serves {
			sum += server.sessions
			capacities += max(int(s.capacity(i)), 1)
		}
	}
	if capacities > 0 {
		m.Mean = float64(sum) / float64(capacities)
	}
	return m
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"fmt"
	"strings"
	"time"
)

// Size is how large a preset scenario is. Clients and Servers must be set.
type Size struct {
	Clients, Servers int
	RTT              time.Duration
	// Jitter is the longest random wait before clients ask; 0 means DefaultJitter.
	Jitter time.Duration
	// Rebalance is how often our clients look whether they had better be on another server; 0 means never. What happens
	// then happens later, when clients may move, and is watched for longer.
	Rebalance time.Duration
}

// PresetKind is a scenario that has a name.
type PresetKind struct {
	// Name is what it is called by.
	Name string
	// About says in a few words what happens.
	About string
	shape func(*Scenario)
	// servers is how many there must be at least for it to happen; 0 means one.
	servers int
	// farthest is how many times the round trip of the size the farthest servers have; 0 where they have it as it is.
	farthest time.Duration
}

// Times of the presets: a fleet has settled after settled, and what follows lasts that long.
const (
	settled    = 10 * time.Second
	aftermath  = 30 * time.Second
	restarting = 8 * time.Second // of one server in a rolling restart
	// The same in intervals, where clients rebalance.
	settledLooks, aftermathLooks = 3, 4
	// twoOfFive is the least number of servers of which two of five are one.
	twoOfFive = 3
)

// Presets returns the scenarios that have a name.
func Presets() []PresetKind {
	return []PresetKind{
		{Name: "cold-start", About: "all clients start at once", shape: func(s *Scenario) { s.Length = settled }},
		{Name: "death", About: "one server dies", shape: func(s *Scenario) { s.happens(Die, 0) }},
		{Name: "back", About: "one server dies and comes back", shape: func(s *Scenario) {
			s.happens(Die, 0)
			s.happens(Rise, 0)
			s.Events[1].At += settled
			s.Length += settled
		}},
		{Name: "rolling-restart", About: "one server after the other is restarted", shape: (*Scenario).rollOver},
		{Name: "scale-up", About: "two servers are added for three", servers: twoOfFive, shape: func(s *Scenario) {
			s.Later = s.Servers * 2 / 5
			for i := range s.Later {
				s.happens(Rise, s.Servers-1-i)
			}
		}},
		{Name: "scale-down", About: "two of five servers are taken away", servers: twoOfFive, shape: func(s *Scenario) {
			for i := range s.Servers * 2 / 5 {
				s.happens(Leave, i)
			}
		}},
		{Name: "hollow-server", About: "one server answers probes and cannot serve", shape: func(s *Scenario) { s.happens(Hollow, 0) }},
		{Name: "frozen-server", About: "one server says nothing any more", shape: func(s *Scenario) { s.happens(Fall, 0) }},
		{Name: "capacities", About: "every second server takes twice the clients", shape: func(s *Scenario) {
			s.Capacities, s.Length = []uint16{1, 2}, settled
		}},
		{Name: "round-trips", About: "servers are near and far", farthest: 2, shape: func(s *Scenario) {
			s.RTTs, s.Length = []time.Duration{s.RTT / 10, s.RTT, 2 * s.RTT}, settled
		}},
		{Name: "lost-reservations", About: "three of ten reservations never arrive", shape: func(s *Scenario) {
			s.LoseReservations, s.Length = .3, settled+aftermath
		}},
		{Name: "mixed-fleet", About: "half of the clients are stock ones", shape: func(s *Scenario) { s.StockClients, s.Length = .5, settled }},
	}
}

// Preset returns the scenario of that name in that size. The error says what cannot be meant by the size, or which names there
// are.
func Preset(name string, size Size) (Scenario, error) {
	var names []string
	for _, kind := range Presets() {
		names = append(names, kind.Name)
		if kind.Name != name {
			continue
		}
		s := Scenario{Name: name, Clients: size.Clients, Servers: size.Servers, RTT: size.RTT, Jitter: size.Jitter, Rebalance: size.Rebalance}
		if s.Jitter == 0 {
			s.Jitter = DefaultJitter
		}
		if s.Servers < kind.servers {
			return s, fmt.Errorf("sim: %s needs %d servers at least, got %d", name, kind.servers, s.Servers)
		}
		if kind.farthest > 0 && s.RTT > maxRTT/kind.farthest {
			return s, fmt.Errorf("sim: %s takes a round trip of %v at most, got %v: it has servers %d times as far",
				name, maxRTT/kind.farthest, s.RTT, kind.farthest)
		}
		kind.shape(&s)
		if len(s.Events) == 0 && s.Rebalance > 0 {
			s.Length += s.settled() + s.aftermath()
		}
		return s, s.Validate()
	}
	return Scenario{}, fmt.Errorf("sim: no such scenario: there are %s", strings.Join(names, ", "))
}

// happens adds an event when the fleet has settled.
func (s *Scenario) happens(kind EventKind, server int) {
	s.Events = append(s.Events, Event{At: s.settled(), Server: server, Kind: kind})
	s.Length = s.settled() + s.aftermath()
}

// rollOver restarts all servers, one after the other.
func (s *Scenario) rollOver() {
	for i := range s.Servers {
		begin := s.settled() + time.Duration(i)*restarting
		s.Events = append(s.Events, Event{At: begin, Server: i, Kind: Drain}, Event{At: begin + restarting*3/4, Server: i, Kind: Rise})
	}
	s.Length = s.changes() + s.aftermath()
}

// settled is when the fleet has settled.
func (s *Scenario) settled() time.Duration { return max(settled, settledLooks*s.Rebalance) }

// aftermath is how long what has happened is watched.
func (s *Scenario) aftermath() time.Duration { return max(aftermath, aftermathLooks*s.Rebalance) }

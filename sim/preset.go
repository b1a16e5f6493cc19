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
}

// Times of the presets: a fleet has settled after settled, and what follows lasts that long.
const (
	settled    = 10 * time.Second
	aftermath  = 30 * time.Second
	restarting = 8 * time.Second // of one server in a rolling restart
	// The same in intervals, where clients rebalance.
	settledLooks, aftermathLooks = 3, 4
)

// Presets returns the scenarios that have a name.
func Presets() []PresetKind {
	return []PresetKind{
		{"cold-start", "all clients start at once", func(s *Scenario) { s.Length = settled }},
		{"death", "one server dies", func(s *Scenario) { s.happens(Die, 0) }},
		{"back", "one server dies and comes back", func(s *Scenario) {
			s.happens(Die, 0)
			s.happens(Rise, 0)
			s.Events[1].At += settled
			s.Length += settled
		}},
		{"rolling-restart", "one server after the other is restarted", (*Scenario).rollOver},
		{"scale-up", "two servers are added for three", func(s *Scenario) {
			s.Later = s.Servers * 2 / 5
			for i := range s.Later {
				s.happens(Rise, s.Servers-1-i)
			}
		}},
		{"scale-down", "two of five servers are taken away", func(s *Scenario) {
			for i := range s.Servers * 2 / 5 {
				s.happens(Leave, i)
			}
		}},
		{"hollow-server", "one server answers probes and cannot serve", func(s *Scenario) { s.happens(Hollow, 0) }},
		{"frozen-server", "one server says nothing any more", func(s *Scenario) { s.happens(Fall, 0) }},
		{"capacities", "every second server takes twice the clients", func(s *Scenario) {
			s.Capacities, s.Length = []uint16{1, 2}, settled
		}},
		{"round-trips", "servers are near and far", func(s *Scenario) {
			s.RTTs, s.Length = []time.Duration{s.RTT / 10, s.RTT, 2 * s.RTT}, settled
		}},
		{"lost-reservations", "three of ten reservations never arrive", func(s *Scenario) {
			s.LoseReservations, s.Length = .3, settled+aftermath
		}},
		{"mixed-fleet", "half of the clients are stock ones", func(s *Scenario) { s.StockClients, s.Length = .5, settled }},
	}
}

// Preset returns the scenario of that name in that size.
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

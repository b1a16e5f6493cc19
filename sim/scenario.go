// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"errors"
	"fmt"
	"time"
)

// DefaultJitter is the random wait of clients before they ask anybody.
const DefaultJitter = 250 * time.Millisecond

// Bounds of a scenario.
const (
	MaxClients = 100_000
	MaxServers = 1000
	maxRTT     = 2 * time.Second
	maxLength  = 24 * time.Hour
	// minRebalance is what a client allows too.
	minRebalance = 100 * time.Millisecond
)

// Scenario is what happens in a simulation. Clients, Servers and Length must be set; the zero values of the rest mean that
// nothing special happens.
type Scenario struct {
	// Name is for people.
	Name string
	// Clients all begin at time 0. From 1 to MaxClients.
	Clients int
	// Servers is from 1 to MaxServers.
	Servers int
	// Later is how many of the servers, the last ones, are unknown and down until an event brings them.
	Later int
	// RTT is the round trip between any client and any server, 2 s at most.
	RTT time.Duration
	// RTTs, where given, are those of the servers in turn, in place of RTT.
	RTTs []time.Duration
	// Jitter is the longest random wait before clients ask; it is that of the clients' own, so 0 means none.
	Jitter time.Duration
	// Capacities are those of the servers, in turn: in their SRV weights, and in what our servers say. Empty means equal.
	Capacities []uint16
	// StockClients is the part of the clients, from 0 to 1, that are stock ones, whatever the algorithm.
	StockClients float64
	// LoseReservations is the part of reservations, from 0 to 1, that never arrive.
	LoseReservations float64
	// Rebalance is how often our clients look whether they had better be on another server, on average; 0 means never.
	Rebalance time.Duration
	// Events are what happens to servers, in any order.
	Events []Event
	// Length is how long the simulation runs. Where nothing more can happen it ends before.
	Length time.Duration
}

// Event is something that happens to a server.
type Event struct {
	At     time.Duration
	Server int
	Kind   EventKind
}

// EventKind is what happens to a server.
type EventKind uint8

const (
	// Die makes the server refuse connections; its clients notice at once.
	Die EventKind = iota
	// Fall makes the server say nothing any more; its clients notice after 5 s.
	Fall
	// Rise starts the server, without clients. One that was unknown becomes known.
	Rise
	// Hollow ends the sessions of the server, which from then on answers probes and can serve nobody.
	Hollow
	// Drain moves the clients of one of our servers away, a few at a time over 5 s. A stock server dies.
	Drain
	// Leave is Drain, and the server is not known any more.
	Leave
)

// String returns the kind in lower case.
func (k EventKind) String() string {
	names := [...]string{"die", "fall", "rise", "hollow", "drain", "leave"}
	if int(k) >= len(names) {
		return fmt.Sprintf("event %d", uint8(k))
	}
	return names[k]
}

// Validate reports all faults of the scenario, joined.
func (s *Scenario) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("sim: "+format, args...))
		}
	}
	check(s.Clients >= 1 && s.Clients <= MaxClients, "%d clients, from 1 to %d are possible", s.Clients, MaxClients)
	check(s.Servers >= 1 && s.Servers <= MaxServers, "%d servers, from 1 to %d are possible", s.Servers, MaxServers)
	check(s.Later >= 0 && s.Later < max(s.Servers, 1), "%d servers come later, at least one must be there", s.Later)
	for _, rtt := range append([]time.Duration{s.RTT}, s.RTTs...) {
		check(rtt >= 0 && rtt <= maxRTT, "a round trip of %v, up to %v is possible", rtt, maxRTT)
	}
	check(s.Jitter >= 0 && s.Jitter <= time.Minute, "a jitter of %v, up to %v is possible", s.Jitter, time.Minute)
	check(s.Length > 0 && s.Length <= maxLength, "a length of %v, up to %v is possible", s.Length, maxLength)
	check(s.StockClients >= 0 && s.StockClients <= 1, "a part of %v stock clients", s.StockClients)
	check(s.LoseReservations >= 0 && s.LoseReservations <= 1, "a part of %v lost reservations", s.LoseReservations)
	check(s.Rebalance == 0 || s.Rebalance >= minRebalance && s.Rebalance <= maxLength,
		"rebalancing every %v, from %v to %v is possible", s.Rebalance, minRebalance, maxLength)
	for _, e := range s.Events {
		check(e.Server >= 0 && e.Server < s.Servers, "an event at server %d of %d", e.Server, s.Servers)
		check(e.At >= 0 && e.Kind <= Leave, "an event of kind %v at %v", e.Kind, e.At)
	}
	return errors.Join(errs...)
}

// mostProbes is how many probes may be under way at a time: with 170 bytes each, some 3 GB.
const mostProbes = 20_000_000

// bounded refuses what would need more memory than a machine can be expected to have: stock clients ask all servers at once.
func (s *Scenario) bounded(algorithm Algorithm) error {
	stock := s.StockClients
	if algorithm == Classic {
		stock = 1
	}
	if probes := stock * float64(s.Clients) * float64(s.Servers); probes > mostProbes {
		return fmt.Errorf("sim: %s would have %.0f clients ask %d servers each, up to %d probes in all are possible: take fewer clients or servers",
			algorithm, stock*float64(s.Clients), s.Servers, mostProbes)
	}
	return nil
}

// uniform says that all servers answer after the same time, always.
func (s *Scenario) uniform() bool { return len(s.RTTs) == 0 && len(s.Events) == 0 }

// forgets says that reservations may be left behind.
func (s *Scenario) forgets() bool {
	return len(s.Events) > 0 || s.LoseReservations > 0 || s.Rebalance > 0
}

// changes is when the last event happens.
func (s *Scenario) changes() time.Duration {
	last := time.Duration(0)
	for _, e := range s.Events {
		last = max(last, e.At)
	}
	return last
}

func (s *Scenario) rtt(server int) time.Duration {
	if len(s.RTTs) > 0 {
		return s.RTTs[server%len(s.RTTs)]
	}
	return s.RTT
}

// capacity is the weight of a server, and what it says of itself; 0 where all are equal.
func (s *Scenario) capacity(server int) uint16 {
	if len(s.Capacities) > 0 {
		return s.Capacities[server%len(s.Capacities)]
	}
	return 0
}

// tracked says that it is watched when the fleet is even.
func (s *Scenario) tracked() bool { return len(s.Events) > 0 || s.Rebalance > 0 }

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import "sync/atomic"

// RegistryStats says who is there, and what a registry has refused or given up since it was made.
type RegistryStats struct {
	Clients      int // connected now
	Reservations int // live now
	Observers    int // of the list of clients, now
	Lists        int // answers to GetConnectedClients that are being made or are on their way, now

	InvalidClients      uint64 // refused for an id that is empty or too long
	RefusedClients      uint64 // refused since there were too many
	TakenClients        uint64 // refused since their id was that of another one
	ReplacedClients     uint64 // ended, being silent, by a newer one with the same id
	EvictedClients      uint64 // ended since they were silent
	ShedClients         uint64 // sent away by Shed
	StalledStreams      uint64 // ended since their clients did not read
	UnknownKeepAlives   uint64 // for ids of nobody
	RefusedReservations uint64 // since there were too many or they came too fast
	RefusedObservers    uint64 // since there were too many
	RefusedLists        uint64 // calls of GetConnectedClients, since there were too many
}

// Stats says the same of what a Server bounds.
type Stats struct {
	Connections int // open now

	RefusedConnections uint64
	RefusedHandshakes  uint64
	RefusedRequests    uint64 // HTTP requests answered with 503 since there were too many
}

// tallies are the numbers of a registry that nothing else counts.
type tallies struct {
	invalid, taken, replaced, evicted, shed, stalled, unknown, unreserved atomic.Uint64
}

// Stats returns the numbers as they are now. They are not from one point in time.
func (r *Registry) Stats() RegistryStats {
	r.mu.Lock()
	r.reservations.expire(r.now())
	r.publishLocked()
	clients, reservations := r.connected, r.reservations.len()
	r.mu.Unlock()
	return RegistryStats{
		Clients: clients, Reservations: reservations, Observers: r.observers.inside(), Lists: r.lists.inside(),
		InvalidClients:      r.tallies.invalid.Load(),
		RefusedClients:      r.places.refusals(),
		TakenClients:        r.tallies.taken.Load(),
		ReplacedClients:     r.tallies.replaced.Load(),
		EvictedClients:      r.tallies.evicted.Load(),
		ShedClients:         r.tallies.shed.Load(),
		StalledStreams:      r.tallies.stalled.Load(),
		UnknownKeepAlives:   r.tallies.unknown.Load(),
		RefusedReservations: r.tallies.unreserved.Load(),
		RefusedObservers:    r.observers.refusals(),
		RefusedLists:        r.lists.refusals(),
	}
}

// Stats returns the numbers as they are now. They are not from one point in time.
func (s *Server) Stats() Stats {
	return Stats{
		Connections:        s.port.open.count(),
		RefusedConnections: s.port.open.places.refusals(),
		RefusedHandshakes:  s.port.admission.refusals(),
		RefusedRequests:    s.probes.refusals() + s.requests.refusals(),
	}
}

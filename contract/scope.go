// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract

// Metadata of GetConnectedClients and ObserveConnectedClients, where several servers of ours make up a cluster. A stock
// server neither sends nor heeds it.
const (
	// ScopeHeader is the request metadata that says whose clients are asked for.
	ScopeHeader = "evenkeel-scope"
	// ScopeLocal as its value asks for the clients of the server that is asked, and not for those of its peers.
	ScopeLocal = "local"
	// InstanceHeader is the response metadata in which a server that was asked with ScopeLocal names itself: a text that
	// is new for each start of a server. By it a server knows its own answer, and one that it got twice.
	InstanceHeader = "evenkeel-instance"
	// PeerErrorHeader is the response metadata with one "host:port: reason" for each server that did not answer, whose
	// clients are missing from the list. What was not about one server begins with "lookup: " or "peers: ".
	PeerErrorHeader = "evenkeel-peer-error"
)

// CapacityHeader is the response metadata in which a server that was asked with ScopeLocal says how many clients it takes in
// proportion to others, an integer from 1 to 1000000. It is absent where the server has no opinion.
const CapacityHeader = "evenkeel-capacity"

// ReservationHeader is the request metadata of Connect with the id of the reservation that it takes up. A stock server
// ignores it, and finds a reservation by the address of the client.
const ReservationHeader = "evenkeel-reservation"

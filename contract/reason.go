// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract

// ReasonTrailer is the trailer in which our server says why it ended a Connect stream, with one of the Reason values. A
// stock server does not send it.
const ReasonTrailer = "evenkeel-reason"

// Why a server ended a Connect stream. All but one come with the status UNAVAILABLE, and the client may connect
// again at once.
const (
	// ReasonEvicted: no keep-alive was answered for too long.
	ReasonEvicted = "evicted"
	// ReasonReplaced: another client connected with the same connection id while this one was silent.
	ReasonReplaced = "replaced"
	// ReasonTaken: the connection id is that of another client, which is alive.
	ReasonTaken = "taken"
	// ReasonDraining: the server is about to stop and lets running calls end; the client is to move to another one.
	ReasonDraining = "draining"
	// ReasonShed: the server has more clients than its share and sends some away; the client is to move to another one. It
	// goes about it as with ReasonDraining.
	ReasonShed = "shed"
	// ReasonStalled: the client has read nothing for too long. It is not likely to read this either.
	ReasonStalled = "stalled"
	// ReasonFull: the server takes no more clients, or no more from that address. The status is RESOURCE_EXHAUSTED.
	ReasonFull = "full"
	// ReasonClosing: the server stops.
	ReasonClosing = "closing"
)

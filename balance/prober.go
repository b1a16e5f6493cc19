// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"crypto/tls"
	"net/netip"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

// Prober asks servers how busy they are and announces that a client is about to connect.
//
// Both methods end at the latest when ctx is done and are safe for concurrent use; several clients of a process can
// share one Prober. Numbers in their results that are out of range count as not told.
type Prober interface {
	// Count asks the endpoint for its connections. When endpoint.Addrs is empty the name is looked up afresh. The Addr
	// of the result is set beside an error too where a connection was made, and the Load where the server answered.
	Count(ctx context.Context, endpoint discover.Endpoint) (Count, error)
	// Reserve tells the endpoint that a client is about to connect; the server counts it from then on. With one address
	// in endpoint.Addrs it goes to the server that answered there.
	Reserve(ctx context.Context, endpoint discover.Endpoint, request ReserveRequest) (Reservation, error)
}

// Count is a server's answer to a probe. A zero Addr means that the prober does not know which address answered.
type Count struct {
	// Connections is the number of connected clients plus live reservations, 0 or more.
	Connections int
	// Addr is the address that answered; a selection pins the endpoint to it.
	Addr netip.AddrPort
	// RTT is how long the answer took on the connection it used, without dialling it.
	RTT time.Duration
	// Proto is the HTTP version of the answer, such as "HTTP/1.1" or "HTTP/2.0".
	Proto string
	// TLS describes the connection of the answer, with the certificates of the server; nil over plaintext, and where
	// the prober does not tell. It must not be changed.
	TLS *tls.ConnectionState
	// Load is what a server of ours says besides; nil from a stock server.
	Load *Load
}

// Load is what a server of ours says of itself besides its count. The zero value says that nobody comes.
type Load struct {
	// ArrivalRate is how many clients a second come to it; not a number (math.NaN) where it does not say.
	ArrivalRate float64
	// Capacity is how many clients it takes in proportion to others; 0 where it does not say.
	Capacity int
	// Draining says that it wants no more clients.
	Draining bool
}

// ReserveRequest says what a reservation asks for. The zero value is the stock request: no conditions.
type ReserveRequest struct {
	// Identify asks for a reservation with an id, and for the count. A stock server knows of neither.
	Identify bool
	// Bound, with Identify, is the count that the server must not have reached yet, 2147483647 at most; 0 means none. A
	// stock server grants the reservation anyway.
	Bound int
}

// Reservation is a server's answer to a reserve. The zero value says that there is none.
type Reservation struct {
	// Made says that the server accepted the reservation. A stock server says no more.
	Made bool
	// Refused says that the server's count had reached the bound, so that nothing was reserved.
	Refused bool
	// ID is what the server knows the reservation by; empty where it has none. It is to be told on Connect, as the
	// metadata evenkeel-reservation, and whoever knows it can release the reservation.
	ID string
	// Count, where there is an ID or the reservation was refused, is the server's count after it.
	Count int
}

// Releaser is a Prober that can give a reservation up. Where a strategy's prober is none, reservations that turn out not to
// be needed end by themselves. A Strategy may be a Releaser too, as least-connections is: it is asked to release what it
// had reserved when its pick could not be used, possibly while it is selecting again.
type Releaser interface {
	// Release gives the reservation with the id up. That there is none any more is no error.
	Release(ctx context.Context, endpoint discover.Endpoint, id string) error
}

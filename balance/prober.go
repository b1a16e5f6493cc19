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
// share one Prober.
type Prober interface {
	// Count asks the endpoint for its connections. When endpoint.Addrs is empty the name is looked up afresh. The Addr
	// of the result is set beside an error too where a connection was made.
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
}

// ReserveRequest says what a reservation asks for. The zero value is the stock request: no conditions.
type ReserveRequest struct{}

// Reservation is a server's answer to a reserve. The zero value is the stock answer, which says nothing but "done".
type Reservation struct {
	// Made says that the server accepted the reservation.
	Made bool
}

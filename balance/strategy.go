// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"errors"

	"github.com/evenkeel-go/evenkeel/discover"
)

// ErrNoCandidates is returned by a Strategy that was given nothing to choose from.
var ErrNoCandidates = errors.New("balance: no candidates")

// Strategy picks the server that one client connects to. It runs on every connect and reconnect.
//
// The candidates are eligible already: they have one priority in common, and excluded and penalised endpoints are not
// among them. Select returns ErrNoCandidates at once when there are none, and returns at the latest when ctx is done.
// A Strategy belongs to one client and is called by one goroutine at a time, unless it says otherwise; it must not
// keep or change the candidates.
type Strategy interface {
	Select(ctx context.Context, candidates []discover.Endpoint) (Selection, error)
}

// Selection is what a Strategy picked and what it knew when it did.
type Selection struct {
	// Endpoint is the pick: one of the candidates, with Addrs narrowed to the address its probe connected on where
	// there was a probe that connected.
	Endpoint discover.Endpoint
	// Observations are the last answers of the candidates that were asked, in the order of the candidates; nil when nobody
	// was.
	Observations []Observation
	// Reservation is what the winner was asked to keep for this client; zero when nothing was reserved.
	Reservation Reservation
	// ReserveErr says why the reservation that was asked for was not made. It takes nothing from the selection:
	// reservations are best effort.
	ReserveErr error
	// Waited says that Select did its random wait, or would have done it had it not been switched off on purpose, so
	// that a reconnecting client does not wait a second time.
	Waited bool
}

// Observation is what the probe of one candidate brought.
type Observation struct {
	Endpoint discover.Endpoint
	// Count is the answer. When Err is set only its Addr and its Load mean something.
	Count Count
	// Err says why there is no count: the candidate then ranked as maximally loaded.
	Err error
	// Silent says that there is no count because none came in time: in this round, or in the one before when this one
	// did not wait for it. A server that refuses, or answers with something else, is not silent.
	Silent bool
}

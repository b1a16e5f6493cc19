// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"errors"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/evenkeel-go/evenkeel/discover"
)

// Resolution is one lookup of a target, or one answer of a source that pushes.
type Resolution struct {
	// Target is what was looked up, such as "dns:///api.example:443".
	Target string
	// At is when it ended, Duration how long it took; 0 for an answer that was pushed.
	At       time.Time
	Duration time.Duration
	// Endpoints is how many endpoints the answer had.
	Endpoints int
	// Err is why it failed, or what was left out of the answer (*discover.PartialError). A failure removes no endpoint.
	Err error
	// Class is the kind of Err in a few fixed words, as it stands in the metrics (error.type); empty without Err.
	Class string
}

// Change is a difference between one set of endpoints of a channel of grpc-go and the next. The first set is one too, but
// not where the target was known already: a second channel of grpc-go to it, and one that comes back from idle mode, begin
// with what was found last, and tell what differs from that.
type Change struct {
	// Target is whose set it is.
	Target string
	// At is when it was handed to the channel.
	At time.Time
	// Added, Removed and Kept are the endpoints by what became of them.
	Added, Removed, Kept []discover.Endpoint
}

// EndpointState is a new state of one endpoint. Only the policies of this package tell it.
type EndpointState struct {
	// Target is whose endpoint it is.
	Target string
	// Addr is the first address of the endpoint, "host:port".
	Addr string
	// At is when the policy told it.
	At time.Time
	// State is the new state; connectivity.Shutdown says that the endpoint was removed.
	State connectivity.State
	// Err is why the endpoint is in connectivity.TransientFailure. In connectivity.Ready it may be ErrNoHealthService,
	// once for a target. It is nil in the other states.
	Err error
}

// ErrNoHealthService is told of a server that has no health service though one was asked for. It gets calls: health that
// cannot be watched is not known to be bad.
var ErrNoHealthService = errors.New("the server has no health service, and counts as healthy")

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/evenkeel-go/evenkeel/contract"
)

// outbox sends the messages of one stream, one at a time, and never lets a client that does not read hold up its handler.
//
// gRPC blocks a send for as long as the client gives no room for it (HTTP/2 flow control), and only the end of the handler
// frees it again. So each send has a goroutine of its own, which commonly lives for some microseconds; when the handler
// returns while one is blocked, gRPC ends the stream and the send fails.
type outbox struct {
	stream   grpc.ServerStream
	patience time.Duration
	stalls   *atomic.Uint64 // how often a client did not read

	sent    chan error // the result of the send that is pending; holds one
	pending bool
	began   time.Time
}

func newOutbox(stream grpc.ServerStream, r *Registry) *outbox {
	return &outbox{stream: stream, patience: r.config.SendTimeout, stalls: &r.tallies.stalled, sent: make(chan error, 1)}
}

// begin starts to send a message; nothing may be pending.
func (o *outbox) begin(message any) {
	o.pending, o.began = true, time.Now()
	go func() { o.sent <- o.stream.SendMsg(message) }()
}

// finish notes that a result was received from sent.
func (o *outbox) finish() { o.pending = false }

// stalled reports whether the client has left no room for the pending message for too long.
func (o *outbox) stalled() bool { return o.pending && time.Since(o.began) >= o.patience }

// slowestClient is how many bytes a second a client has to take in of a long message, besides the patience that there is
// for any.
const slowestClient = 64 << 10

// send sends a message and waits until it is on its way.
func (o *outbox) send(ctx context.Context, message proto.Message) error {
	o.begin(message)
	timer := time.NewTimer(o.patience + time.Duration(proto.Size(message))*time.Second/slowestClient)
	defer timer.Stop()
	select {
	case err := <-o.sent:
		o.finish()
		return err // made by grpc-go, and a status already
	case <-timer.C:
		return o.stall()
	case <-ctx.Done():
		return statusOfContext(ctx)
	}
}

// stall is the error of a stream whose client does not read. The client gets it late or never: it stands behind the
// messages that it does not read.
func (o *outbox) stall() error {
	o.stalls.Add(1)
	o.stream.SetTrailer(metadata.Pairs(contract.ReasonTrailer, contract.ReasonStalled))
	text := fmt.Sprintf("connection stalled: nothing was read for %s s", secondsText(o.patience))
	return &endError{reason: contract.ReasonStalled, status: status.New(codes.Unavailable, text)}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/contract"
)

// checkConnectionID refuses an id that cannot name a client.
func checkConnectionID(id string) error {
	if id == "" {
		return status.Error(codes.InvalidArgument, "the connection id is empty")
	}
	if len(id) > maxConnectionID {
		return status.Errorf(codes.InvalidArgument, "the connection id has %d bytes, more than %d", len(id), maxConnectionID)
	}
	return nil
}

// endStatus is how a Connect stream ends when the server ends it. Stock clients look for the code, and some for the word
// "connection" in the text, to know that they should connect again.
func endStatus(reason string, staleAfter time.Duration) error {
	code, text := codes.Unavailable, "connection closed"
	switch reason {
	case contract.ReasonEvicted:
		text = fmt.Sprintf("connection evicted: no keep-alive for %s s", secondsText(staleAfter))
	case contract.ReasonReplaced:
		text = "connection replaced: another one has the same connection id"
	case contract.ReasonTaken:
		text = "connection refused: another client has the same connection id"
	case contract.ReasonDraining:
		text = "connection draining: move to another server"
	case contract.ReasonShed:
		text = "connection shed: move to another server"
	case contract.ReasonFull:
		code, text = codes.ResourceExhausted, "connection refused: the server has too many clients"
	case contract.ReasonClosing:
		text = "connection closing: the server is stopping"
	}
	return &endError{reason: reason, status: status.New(code, text)}
}

// endError ends a stream by the server's will. It tells a Server why.
type endError struct {
	reason string
	status *status.Status
}

func (e *endError) Error() string { return e.status.Message() }

// GRPCStatus is what gRPC makes of the error.
func (e *endError) GRPCStatus() *status.Status { return e.status }

// statusOfContext is how a Connect stream ends when its client has gone.
func statusOfContext(ctx context.Context) error {
	return status.FromContextError(ctx.Err()).Err()
}

// secondsText renders a span as people write it, "5" or "1.5".
func secondsText(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'g', -1, 64) }

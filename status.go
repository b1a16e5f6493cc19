// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callError is the error of a call: a gRPC status for those who look at codes, and the typed cause for errors.As.
type callError struct {
	code  codes.Code
	text  string
	cause error
}

func (e *callError) Error() string {
	return "rpc error: code = " + e.code.String() + " desc = " + e.text
}

// GRPCStatus makes status.Code and status.FromError see the code.
func (e *callError) GRPCStatus() *status.Status { return status.New(e.code, e.text) }

func (e *callError) Unwrap() error { return e.cause }

// unavailable is the error of a call that found no session, or whose session was lost.
func unavailable(text string, cause error) error {
	if cause != nil {
		text += ": " + cause.Error()
	}
	return &callError{code: codes.Unavailable, text: text, cause: cause}
}

// noSession is the error of a call that may not wait for the next attempt. A failed attempt says itself what it is.
func noSession(cause error) error {
	if attempt, ok := errors.AsType[*AttemptError](cause); ok {
		return &callError{code: codes.Unavailable, text: attempt.Error(), cause: cause}
	}
	return unavailable("evenkeel: no session", cause)
}

// unauthenticatedError is a call's Unauthenticated, as the server or the credentials made it, in which ErrUnauthenticated is
// found.
type unauthenticatedError struct{ error }

// GRPCStatus is that of the call, with its details.
func (e *unauthenticatedError) GRPCStatus() *status.Status { return status.Convert(e.error) }

func (e *unauthenticatedError) Unwrap() []error { return []error{ErrUnauthenticated, e.error} }

// refusedCall gives the error of a call that was refused its cause.
func refusedCall(err error) error {
	if errors.Is(err, ErrUnauthenticated) {
		return err
	}
	return &unauthenticatedError{err}
}

// closedError is the error of a call on a closed Conn.
func closedError() error {
	return &callError{code: codes.Canceled, text: ErrClosed.Error(), cause: ErrClosed}
}

// endedError is the error of a call on a Conn that was closed, or has ended for a cause.
func endedError(cause error) error {
	if errors.Is(cause, ErrClosed) {
		return closedError()
	}
	return noSession(cause)
}

// gaveUpError is the error of a call whose context ended while it waited for a session.
func gaveUpError(ctx context.Context, why *AttemptError) error {
	return &callError{code: contextCode(ctx), text: why.Error(), cause: why}
}

// contextError is the error of a call whose context ended while it waited for a connection.
func contextError(ctx context.Context) error {
	return &callError{code: contextCode(ctx), text: ctx.Err().Error() + " while waiting for a connection", cause: ctx.Err()}
}

func contextCode(ctx context.Context) codes.Code {
	if ctx.Err() == context.Canceled {
		return codes.Canceled
	}
	return codes.DeadlineExceeded
}

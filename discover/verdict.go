// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// subject is what the errors of a lookup are about.
type subject struct {
	name string // canonical
	kind string // as LookupError.Type has it
}

// read returns the answer in an outcome, or why there is none. The context is the caller's.
func (s subject) read(ctx context.Context, o outcome, want dnsmessage.Type) (reply, error) {
	if o.msg == nil || o.err != nil {
		return reply{}, s.failure(ctx, o)
	}
	answer, err := parseReply(o.msg, want)
	if err != nil {
		o.err = err
		return reply{}, s.failure(ctx, o)
	}
	switch {
	case answer.code == codeNXDomain:
		return reply{}, s.failed(o, answer.code, ErrNoSuchName, nil)
	case answer.code != codeNoError:
		return reply{}, s.failed(o, answer.code, ErrServerFailed, nil)
	case answer.referral:
		return reply{}, s.failed(o, answer.code, ErrServerFailed, errReferral)
	}
	return answer, nil
}

func (s subject) failed(o outcome, code string, kind, cause error) *LookupError {
	return &LookupError{Name: s.name, Type: s.kind, Server: o.server, Asked: o.asked, Code: code, Kind: kind, Err: cause}
}

// partial returns nil without faults: a nil *PartialError would be an error that is not nil.
func (s subject) partial(server string, faults []fault) error {
	if len(faults) == 0 {
		return nil
	}
	partial := &PartialError{Name: s.name, Type: s.kind, Server: server, Dropped: len(faults)}
	for _, f := range faults[:min(len(faults), maxFaults)] {
		partial.Faults = append(partial.Faults, f.err)
	}
	return partial
}

// failure tells why no reply came: the caller's context first, since that is what ended the wait.
func (s subject) failure(ctx context.Context, o outcome) error {
	ended := ended(ctx)
	switch {
	case errors.Is(ended, context.Canceled):
		return s.failed(o, "", nil, ended)
	case ended != nil:
		return s.failed(o, "", ErrTimeout, ended)
	case isTimeout(o.err) && o.garbage:
		return s.failed(o, "", ErrServerFailed, errGarbage)
	case isTimeout(o.err):
		return s.failed(o, "", ErrTimeout, nil)
	default:
		return s.failed(o, "", ErrServerFailed, plain(o.err))
	}
}

// overdue makes a timeout of what the end of the time for a lookup has led to: it may show as a cancel.
func overdue(limited context.Context, err error) error {
	if ended(limited) != nil && !isTimeout(err) {
		return os.ErrDeadlineExceeded
	}
	return err
}

// serverUnknown tells that the name server's own name could not be looked up. The cause is not wrapped when it is a
// timeout: it would match context.DeadlineExceeded, which stands for the caller's deadline.
func (s subject) serverUnknown(ctx context.Context, server string, err error) error {
	o := outcome{server: server}
	switch {
	case ended(ctx) != nil:
		return s.failure(ctx, o)
	case isTimeout(err):
		return s.failed(o, "", ErrTimeout, errors.New("its own name was not found in time"))
	default:
		return s.failed(o, "", ErrServerFailed, fmt.Errorf("its own name cannot be looked up: %w", err))
	}
}

// ended returns how ctx ended, nil when it did not. Sockets are given its deadline, and may act on it a moment before
// its timer does.
func ended(ctx context.Context) error {
	if deadline, has := ctx.Deadline(); has && ctx.Err() == nil && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

// plain drops the addresses that package net puts around a cause: the name server is named already.
func plain(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err
	}
	return err
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Invoke makes a unary call on the current session's server. While there is no session it waits for the attempt that
// runs first after New or after a loss; in StateTransientFailure it fails with Unavailable and the cause, or, with
// grpc.WaitForReady among opts, waits for its deadline. A call that a lost session cut off fails with Unavailable and
// the cause; it is never repeated. A call of which nothing was sent yet goes to the next session.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	var tried *generation
	for {
		g, err := c.session(ctx, opts, tried)
		if err != nil {
			return err
		}
		err = g.Invoke(ctx, method, args, reply, opts...)
		if err == nil || !g.neverSent(err) {
			return err
		}
		tried = g
	}
}

// NewStream begins a stream on the current session's server, and waits and fails as Invoke does.
func (c *Conn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	var tried *generation
	for {
		g, err := c.session(ctx, opts, tried)
		if err != nil {
			return nil, err
		}
		s, err := g.NewStream(ctx, desc, method, opts...)
		if err == nil || !g.neverSent(err) {
			return s, err
		}
		tried = g
	}
}

// session returns the generation that a call goes to, waiting for one where the call may wait. It is another one than
// the call has tried already.
func (c *Conn) session(ctx context.Context, opts []grpc.CallOption, tried *generation) (*generation, error) {
	for {
		v := c.view.Load()
		if v.gen != nil && v.gen != tried {
			return v.gen, nil
		}
		if v.state == StateShutdown {
			return nil, endedError(v.failure)
		}
		if v.state == StateTransientFailure && !waitsForReady(opts) {
			return nil, noSession(v.failure)
		}
		select {
		case <-v.changed:
		case <-ctx.Done():
			return nil, gaveUpError(ctx, c.progress.gaveUp(ctx.Err(), v.failure))
		}
	}
}

// waitsForReady says whether the options of a call hold grpc.WaitForReady(true); the last one counts.
func waitsForReady(opts []grpc.CallOption) bool {
	waits := false
	for _, o := range opts {
		if f, ok := o.(grpc.FailFastCallOption); ok {
			waits = !f.FailFast
		}
	}
	return waits
}

// Invoke makes a unary call on the generation's server.
func (g *generation) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	l, err := g.enter(ctx)
	if err != nil {
		return err
	}
	defer g.leave(l)
	if err = l.calls.Invoke(ctx, method, args, reply, opts...); err == nil || g.neverSent(err) {
		return err
	}
	return g.callError(ctx, l, err)
}

// NewStream begins a stream on the generation's server. It counts as open until it has ended.
func (g *generation) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	l, err := g.enter(ctx)
	if err != nil {
		return nil, err
	}
	leave := sync.OnceFunc(func() { g.leave(l) })
	opts = append(opts[:len(opts):len(opts)], grpc.OnFinish(func(error) { leave() }))
	s, err := l.calls.NewStream(ctx, desc, method, opts...)
	if err != nil {
		leave() // an interceptor may have failed it before grpc-go knew of it
		if !g.neverSent(err) {
			err = g.callError(ctx, l, err)
		}
		return nil, err
	}
	return &stream{ClientStream: s, gen: g, lane: l, leave: leave, ctx: ctx}, nil
}

// neverSent says that a call failed before any of it left the client, so that it may go to the next generation. The
// error that grpc-go has for calls on a closed connection does not say so: calls which that close cut off have the same.
func (g *generation) neverSent(err error) bool { return errors.Is(err, errGone) }

// callError is the error of a call that failed on g: the loss of the session where that cut it off, else the call's
// own. The close of a generation looks like a cancellation to grpc-go, but the caller has not cancelled anything. A
// connection that breaks takes its calls with it before the session has noticed.
func (g *generation) callError(ctx context.Context, l *lane, err error) error {
	cause := g.cause()
	if cause == nil {
		cause = l.broken()
	}
	code := status.Code(err)
	if code == codes.Unauthenticated {
		return refusedCall(err)
	}
	if cause == nil || ctx.Err() != nil || code != codes.Canceled && code != codes.Unavailable {
		return err
	}
	if errors.Is(cause, ErrClosed) {
		return closedError()
	}
	return unavailable("session on "+g.endpoint.Addr()+" lost", cause)
}

// stream gives the errors of a stream that was cut off their cause.
type stream struct {
	grpc.ClientStream
	gen   *generation
	lane  *lane
	leave func() // tells that it has ended, which grpc-go does not where an interceptor answers in its place
	//nolint:containedctx // the stream's own context, to tell the caller's cancellation from ours
	ctx context.Context
}

func (s *stream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, s.error(err)
}

func (s *stream) SendMsg(m any) error { return s.error(s.ClientStream.SendMsg(m)) }

// RecvMsg also tells a stream that a draining server ended: it may end before the session's own.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		s.leave()
	}
	if err != nil {
		if cause := sentAway(s.Trailer()); cause != nil {
			return unavailable("stream on "+s.gen.endpoint.Addr(), cause)
		}
	}
	return s.error(err)
}

func (s *stream) CloseSend() error { return s.error(s.ClientStream.CloseSend()) }

func (s *stream) error(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // grpc-go documents io.EOF itself, never wrapped
		return err
	}
	return s.gen.callError(s.ctx, s.lane, err)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"

	"google.golang.org/grpc"
)

// callOnReady runs the program's part of a new session: with a connection to that session alone, for as long as the
// attempt may last. It does not wait for a callback that ignores its context.
func callOnReady(
	ctx context.Context, gen *generation, onReady func(context.Context, grpc.ClientConnInterface) error,
) error {
	_, err := ask(ctx, newToken(), "callback", func() (struct{}, error) {
		return struct{}{}, onReady(gen.ctx, boundConn{gen})
	})
	return err
}

// boundConn is a connection to one session. Calls on it do not follow the Conn to the next.
type boundConn struct{ gen *generation }

func (b boundConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return b.error(b.gen.Invoke(ctx, method, args, reply, opts...))
}

func (b boundConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := b.gen.NewStream(ctx, desc, method, opts...)
	return s, b.error(err)
}

// error gives a call that was not sent, and has nowhere else to go, the cause of the loss.
func (b boundConn) error(err error) error {
	if err == nil || !b.gen.neverSent(err) {
		return err
	}
	return unavailable("session on "+b.gen.endpoint.Addr()+" lost", b.gen.cause())
}

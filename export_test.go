// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel/discover"
)

// DialerForTest dials in memory, so that a test can run in a synctest bubble.
type DialerForTest func(ctx context.Context, endpoint discover.Endpoint) (net.Conn, error)

func (f DialerForTest) Dial(ctx context.Context, endpoint discover.Endpoint) (net.Conn, error) {
	return f(ctx, endpoint)
}

// WithDialerForTest replaces the TCP dialer.
func WithDialerForTest(d DialerForTest) Option { return optionFunc(func(c *config) { c.dialer = d }) }

// NewReadyForTest returns a Conn whose session is the given connection, with no loop behind it.
func NewReadyForTest(calls grpc.ClientConnInterface) *Conn {
	c := &Conn{}
	g := &generation{}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.lanes.Store(&[]*lane{{calls: calls}})
	c.view.Store(&view{state: StateReady, gen: g, changed: make(chan struct{})})
	return c
}

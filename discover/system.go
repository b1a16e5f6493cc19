// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"net"
	"sync"
	"time"
)

// exchangeLimit caps one exchange of the system's resolver with one name server. Go's own limit is 5 s, all that a
// lookup has: one lost datagram would use it up.
const exchangeLimit = 2 * time.Second

// SystemResolver returns a resolver that asks the name servers of the system and ends with its context.
//
// It is Go's own resolver, never the C library's, which can be neither cancelled nor pointed elsewhere. Its dial hook
// ends every exchange as soon as the context is done (Go's resolver alone heeds deadlines but not a cancel) and after
// 2 s at the latest, so that a lost datagram leaves time for a second attempt. The hosts file and the options of
// resolv.conf count as usual. Everything in this module that looks up addresses uses it.
//
// The resolver is safe for concurrent use; keep it rather than making one per lookup, since lookups of one name that
// run at once are then shared.
func SystemResolver() *net.Resolver {
	return systemResolver(dialServer)
}

// dialFunc is the type of net.Resolver.Dial.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func systemResolver(dial dialFunc) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: dial}
}

// dialServer connects to a name server for one exchange of net.Resolver.
func dialServer(ctx context.Context, network, address string) (net.Conn, error) {
	limit := time.Now().Add(exchangeLimit)
	dialer := net.Dialer{Deadline: limit}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return bind(ctx, conn, limit), nil
}

// bind returns a connection that ends with ctx, and at limit at the latest. A UDP connection stays a net.PacketConn:
// net.Resolver speaks TCP to everything else.
func bind(ctx context.Context, conn net.Conn, limit time.Time) net.Conn {
	bound := &boundConn{Conn: conn, ctx: ctx, limit: limit}
	bound.stop = context.AfterFunc(ctx, func() { _ = bound.SetDeadline(limit) })
	if udp, ok := conn.(*net.UDPConn); ok {
		return &boundUDP{boundConn: bound, udp: udp}
	}
	return bound
}

// boundConn is a connection whose reads and writes end with a context. The context belongs to one exchange, and so does
// the connection.
type boundConn struct {
	net.Conn

	ctx   context.Context //nolint:containedctx // the connection is of one exchange, and so is the context
	limit time.Time
	stop  func() bool

	mu sync.Mutex // makes looking at ctx and setting the deadline one step
}

// SetDeadline sets the deadline, but none behind the limit and only a past one once the context is done.
//
// The context may end while net.Resolver, which knows nothing of it, is about to set a deadline of its own. If the
// cancel comes first, this sees it; if the deadline comes first, the AfterFunc of the context calls this again.
func (c *boundConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ctx.Err() != nil:
		t = time.Unix(1, 0)
	case t.IsZero() || t.After(c.limit):
		t = c.limit
	}
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline sets both deadlines: a second clock would have to be watched as well.
func (c *boundConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

// SetWriteDeadline sets both deadlines, as SetReadDeadline does.
func (c *boundConn) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }

// Close closes the connection and lets go of the context.
func (c *boundConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// boundUDP is a boundConn that is a net.PacketConn as well.
type boundUDP struct {
	*boundConn

	udp *net.UDPConn
}

// ReadFrom implements net.PacketConn.
func (c *boundUDP) ReadFrom(p []byte) (int, net.Addr, error) { return c.udp.ReadFrom(p) }

// WriteTo implements net.PacketConn.
func (c *boundUDP) WriteTo(p []byte, addr net.Addr) (int, error) { return c.udp.WriteTo(p, addr) }

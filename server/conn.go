// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// conn is an accepted connection. The server keeps a list of them, so that it can close all of them at once whatever
// state they are in: in their handshake, silent after it, or serving.
type conn struct {
	net.Conn
	from source
	// onlyHTTP2 says that the client offered HTTP/2 and not HTTP/1.1. Written during the handshake and read after it, by
	// the same goroutine.
	onlyHTTP2 bool

	owner *conns
	once  sync.Once
	err   error

	// Guarded by the list's lock.
	sessions   int  // Connect streams that are open on it
	hadSession bool // there was one
	// armed is when the deadline of writes was set last, as a time.Duration since epoch: 0 when it has to be set, far in
	// the future when it is not to be touched.
	armed atomic.Int64

	progress progress // of what is written
}

// A peer that takes nothing in for writeTimeout, at least writeChunk bytes of it, is cut off: whoever writes to it would
// wait for ever. The deadline is set anew when a quarter of it is over, not for each write.
const (
	writeTimeout = 20 * time.Second
	writeChunk   = 64 << 10
)

// Write writes with a deadline that bounds the standstill, not the whole: a long answer may take its time.
func (c *conn) Write(p []byte) (int, error) {
	written := 0
	for {
		if err := c.arm(); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:min(len(p), written+writeChunk)])
		written += n
		c.progress.add(n)
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

func (c *conn) arm() error {
	now := time.Since(c.owner.epoch)
	if last := time.Duration(c.armed.Load()); last > 0 && now-last < writeTimeout/4 {
		return nil
	}
	c.armed.Store(int64(now))
	return c.Conn.SetWriteDeadline(c.owner.epoch.Add(now + writeTimeout))
}

// SetWriteDeadline sets a deadline of the owner's, which holds instead of the connection's own until it is taken back.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.setByOwner(t)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline does the same for reads and writes.
func (c *conn) SetDeadline(t time.Time) error {
	c.setByOwner(t)
	return c.Conn.SetDeadline(t)
}

func (c *conn) setByOwner(t time.Time) {
	if t.IsZero() {
		c.armed.Store(0)
		return
	}
	c.armed.Store(math.MaxInt64)
}

// Close closes the connection and takes it off the list.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.owner.remove(c)
		c.err = c.Conn.Close()
	})
	return c.err
}

// conns are the open connections of a server. It is safe for concurrent use.
type conns struct {
	work   *activity  // counts those that have carried a session
	places *admission // bounds them
	epoch  time.Time  // any time in the past

	mu     sync.Mutex
	open   map[*conn]struct{}
	byEnds map[ends]*conn // those over TCP
	closed bool
}

// ends are the two addresses of a TCP connection. They tell a connection from all others that are open, and are all that
// a gRPC call says about its connection.
type ends struct {
	remote, local netip.AddrPort
}

// endsOf returns false for a connection without IP addresses.
func endsOf(remote, local net.Addr) (ends, bool) {
	e := ends{remote: addrPortOf(remote), local: addrPortOf(local)}
	return e, e.remote.IsValid() && e.local.IsValid()
}

// add lists a connection just accepted; false means that the server is closed or has too many, and the connection is not
// wanted.
func (cs *conns) add(accepted net.Conn) (*conn, bool) {
	c := &conn{Conn: accepted, from: sourceOfAddr(accepted.RemoteAddr()), owner: cs}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed || !cs.places.enter(c.from) {
		return nil, false
	}
	if cs.open == nil {
		cs.open, cs.byEnds = make(map[*conn]struct{}), make(map[ends]*conn)
	}
	cs.open[c] = struct{}{}
	if e, ok := endsOf(c.RemoteAddr(), c.LocalAddr()); ok {
		cs.byEnds[e] = c
	}
	return c, true
}

// beginSession counts a Connect stream of a connection. From its first one to its end the connection is one that a drain
// waits for.
func (cs *conns) beginSession(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.sessions++
	if _, listed := cs.open[c]; listed && !c.hadSession {
		c.hadSession = true
		cs.work.enter()
	}
}

// endSession undoes the counting of beginSession.
func (cs *conns) endSession(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.sessions--
}

// inSession reports whether the connection has a Connect stream.
func (cs *conns) inSession(c *conn) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.sessions > 0
}

// withSession returns how many connections there are that have carried a session, and the addresses of some of them, in
// no order.
func (cs *conns) withSession(some int) (n int, addrs []string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		if !c.hadSession {
			continue
		}
		if n++; n <= some {
			addrs = append(addrs, c.RemoteAddr().String())
		}
	}
	return n, addrs
}

func (cs *conns) remove(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if _, listed := cs.open[c]; !listed {
		return
	}
	delete(cs.open, c)
	// The system may have given the addresses to a newer connection, when this one was cut by the peer.
	if e, ok := endsOf(c.RemoteAddr(), c.LocalAddr()); ok && cs.byEnds[e] == c {
		delete(cs.byEnds, e)
	}
	cs.places.leave(c.from)
	if c.hadSession {
		cs.work.leave()
	}
}

// find returns the connection between two addresses, or nil.
func (cs *conns) find(remote, local net.Addr) *conn {
	e, ok := endsOf(remote, local)
	if !ok {
		return nil
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.byEnds[e]
}

func (cs *conns) count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.open)
}

// closeAll closes every connection and lets none in any more.
func (cs *conns) closeAll() {
	cs.mu.Lock()
	cs.closed = true
	all := make([]*conn, 0, len(cs.open))
	for c := range cs.open {
		all = append(all, c)
	}
	cs.mu.Unlock()
	for _, c := range all {
		// The peer is being cut off; whether its socket had an error before does not matter any more.
		_ = c.Close()
	}
}

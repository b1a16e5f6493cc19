// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"net"
	"sync"
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
}

// Close closes the connection and takes it off the list.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.owner.remove(c)
		c.err = c.Conn.Close()
	})
	return c.err
}

// conns are the open connections of a server. The zero value is ready. It is safe for concurrent use.
type conns struct {
	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

// add lists a connection just accepted; false means that the server is closed and the connection not wanted.
func (cs *conns) add(accepted net.Conn) (*conn, bool) {
	c := &conn{Conn: accepted, from: sourceOfAddr(accepted.RemoteAddr()), owner: cs}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return nil, false
	}
	if cs.open == nil {
		cs.open = make(map[*conn]struct{})
	}
	cs.open[c] = struct{}{}
	return c, true
}

func (cs *conns) remove(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c)
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

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"crypto/tls"
	"net"
	"sync"
)

// abruptListener remembers the connections that it accepted, so that they can all be reset at once.
type abruptListener struct {
	net.Listener

	// mu guards what follows.
	mu   sync.Mutex
	open map[*abruptConn]struct{}
	dead bool
}

// abruptConn is a TCP connection that its listener can reset.
type abruptConn struct {
	*net.TCPConn
	listener *abruptListener
}

// Accept returns the next connection.
func (l *abruptListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &abruptConn{TCPConn: accepted.(*net.TCPConn), listener: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		c.reset()
		return nil, net.ErrClosed
	}
	if l.open == nil {
		l.open = make(map[*abruptConn]struct{})
	}
	l.open[c] = struct{}{}
	return c, nil
}

// Close closes the connection as usual.
func (c *abruptConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.TCPConn.Close()
}

// reset closes the connection in the way of a process that dies with unread bytes: the peer gets RST, not FIN.
func (c *abruptConn) reset() {
	// Where lingering cannot be set the peer gets FIN instead, and where closing fails the connection is gone already.
	_ = c.SetLinger(0)
	_ = c.TCPConn.Close()
}

// reset closes the listener and resets its connections.
func (l *abruptListener) reset() {
	// First the port, so that nobody who notices the reset gets in again.
	_ = l.Close() // it cannot fail but by being closed
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for c := range l.open {
		c.reset()
	}
	clear(l.open)
}

// serverTLS are a server's settings with one certificate.
func serverTLS(certificate tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// faultListener stands between a server's port and the server: it remembers the connections, so that they can all be
// reset at once, and does to them what a fault says.
type faultListener struct {
	net.Listener
	faults *faults
	tls    *tls.Config // nil in plaintext
	front  *front
	silent sync.WaitGroup // connections on which nothing is said; added to under mu, while not dead

	// mu guards what follows.
	mu       sync.Mutex
	open     map[netip.AddrPort]*faultConn // by the address of the peer
	accepted int
	dead     bool
}

// Accept returns the next connection that the server is to see.
func (l *faultListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, fault, ok := l.admit(accepted.(*net.TCPConn))
		switch {
		case !ok:
			return nil, net.ErrClosed
		case fault.Reset:
			c.reset()
			l.forget(c)
		case fault.Silent, fault.SilentAfterTLS && l.tls == nil:
			go l.swallow(c, c)
		case fault.SilentAfterTLS:
			c.settled = true
			go l.swallow(c, tls.Server(c, l.tls))
		case l.tls == nil && fault.spoilsHTTP():
			l.front.takeHTTP(c)
		default:
			return c, nil
		}
	}
}

// swallow reads what the peer sends and says nothing, until either side closes the connection. The first read of a TLS
// connection runs its handshake. admit has counted it.
func (l *faultListener) swallow(c *faultConn, from io.Reader) {
	defer l.silent.Done()
	_, _ = io.Copy(io.Discard, from) // ends with the connection, whatever the reason
	_ = c.Close()                    // it is over
}

// admit notes a connection and returns the fault that it meets. It returns false when the server is dead.
func (l *faultListener) admit(accepted *net.TCPConn) (*faultConn, Fault, bool) {
	c := &faultConn{TCPConn: accepted, listener: l, peer: accepted.RemoteAddr().(*net.TCPAddr).AddrPort()}
	c.settled = l.tls == nil // there will be no ClientHello
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		c.reset()
		return nil, Fault{}, false
	}
	if l.open == nil {
		l.open = make(map[netip.AddrPort]*faultConn)
	}
	if former := l.open[c.peer]; former != nil {
		former.reset() // its peer has forgotten it, or could not have the same port again
	}
	l.open[c.peer] = c
	l.accepted++
	fault, _ := l.faults.load()
	if !fault.Reset && (fault.Silent || fault.SilentAfterTLS) {
		l.silent.Add(1) // here, under mu, so that reset waits for it
	}
	return c, fault, true
}

func (l *faultListener) forget(c *faultConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[c.peer] == c {
		delete(l.open, c.peer)
	}
}

// counts returns how many connections are open and how many have been accepted.
func (l *faultListener) counts() (open, accepted int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open), l.accepted
}

// route is the server's GetConfigForClient: it learns what the client offers, and takes the connection away from the
// server when a fault says so. The error makes the server close the connection, which then goes to the front.
func (l *faultListener) route(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	peer, ok := hello.Conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[peer.AddrPort()]
	if c == nil {
		return nil, nil
	}
	fault, _ := l.faults.load() // under mu, so that cutHTTP finds those that have not seen it
	native := slices.Contains(hello.SupportedProtos, "h2") && !slices.ContainsFunc(hello.SupportedProtos, func(offer string) bool {
		return strings.HasPrefix(offer, "http/1.")
	})
	switch {
	case native && fault.Bare401:
		c.divert(func() { l.front.takeHTTP(c) })
	case native && fault.GoAwayAfter > 0:
		c.divert(func() { l.front.takeGRPC(c, fault.GoAwayAfter) })
	case !native && fault.spoilsHTTP():
		c.divert(func() { l.front.takeHTTP(c) })
	default:
		c.http = !native
		c.settled, c.hello = true, nil
		return nil, nil
	}
	return nil, errDiverted
}

// cutHTTP closes the connections of HTTP clients to the real server.
func (l *faultListener) cutHTTP() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for peer, c := range l.open {
		if c.http {
			_ = c.TCPConn.Close() // the server finds it closed
			delete(l.open, peer)
		}
	}
}

// reset closes the listener and resets its connections.
func (l *faultListener) reset() {
	// First the port, so that nobody who notices the reset gets in again.
	_ = l.Close() // it cannot fail but by being closed
	l.mu.Lock()
	l.dead = true
	for _, c := range l.open {
		c.reset()
	}
	clear(l.open)
	l.mu.Unlock()
	l.silent.Wait()
}

// errDiverted ends the handshake of the real server; nobody but its debug log sees it.
var errDiverted = errors.New("the connection was taken over for a fault of the test")

// faultConn is a TCP connection that its listener can reset, and can take away from the server after the ClientHello: what
// was read until then is read once more by whoever gets it.
type faultConn struct {
	*net.TCPConn
	listener *faultListener
	peer     netip.AddrPort
	http     bool // guarded by listener.mu: an HTTP client on the real server

	// The goroutine that runs the handshake owns these, then whoever the connection was handed to.
	settled bool   // nobody will want the ClientHello again
	hello   []byte // what was read of it
	replay  []byte // what is to be read again

	diverted atomic.Pointer[func()] // hands the connection over, when the server closes it
}

// Read reads on, or again.
func (c *faultConn) Read(p []byte) (int, error) {
	if len(c.replay) > 0 {
		n := copy(p, c.replay)
		c.replay = c.replay[n:]
		return n, nil
	}
	n, err := c.TCPConn.Read(p)
	if !c.settled {
		c.hello = append(c.hello, p[:n]...)
	}
	return n, err
}

// Write writes, save for the alert with which the server takes its leave of a connection that goes on elsewhere.
func (c *faultConn) Write(p []byte) (int, error) {
	if c.diverted.Load() != nil {
		return len(p), nil
	}
	return c.TCPConn.Write(p)
}

// CloseWrite ends the sending half, unless the connection goes on elsewhere.
func (c *faultConn) CloseWrite() error {
	if c.diverted.Load() != nil {
		return errDiverted
	}
	return c.TCPConn.CloseWrite()
}

// divert lets the next Close hand the connection over.
func (c *faultConn) divert(handOver func()) { c.diverted.Store(&handOver) }

// Close closes the connection as usual, or hands it over.
func (c *faultConn) Close() error {
	if handOver := c.diverted.Swap(nil); handOver != nil {
		c.settled, c.replay, c.hello = true, c.hello, nil
		// What the server allowed itself is not for the next owner: a write that fails half-way spoils what TLS sends after.
		_ = c.SetDeadline(time.Time{}) // it fails where the connection is closed, which the next owner finds
		(*handOver)()
		return nil
	}
	c.listener.forget(c)
	return c.TCPConn.Close()
}

// reset closes the connection in the way of a process that dies with unread bytes: the peer gets RST, not FIN.
func (c *faultConn) reset() {
	// Where lingering cannot be set the peer gets FIN instead, and where closing fails the connection is gone already.
	_ = c.SetLinger(0)
	_ = c.TCPConn.Close()
}

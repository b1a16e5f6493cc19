// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// Direction is one of the two ways through a relay.
type Direction int

// The directions of a relay.
const (
	ToServer Direction = iota
	ToClient
)

const (
	// relayDialTimeout is how long the target may take to accept.
	relayDialTimeout = 10 * time.Second
	// maxRelayed bounds the connections of a relay; more are reset.
	maxRelayed = 16384
)

// Relay forwards TCP connections from a port of 127.0.0.1 to a target, and is the bad network between the two: it delays,
// stalls and cuts, all connections or one. NewRelay and StartRelay make one. What it holds is bounded: 256 KiB for each
// direction of a connection, beyond which it reads no more. It is safe for concurrent use.
type Relay struct {
	target   string
	addr     netip.AddrPort
	listener *net.TCPListener
	running  sync.WaitGroup
	life     context.Context //nolint:containedctx // ends dials to the target
	end      context.CancelFunc

	// mu guards what follows, and the control of each connection.
	mu      sync.Mutex
	open    map[*RelayConn]struct{}
	closed  bool
	control relayControl
	changed chan struct{} // closed and replaced when a control changes
}

// relayControl says how bad the network is.
type relayControl struct {
	stalled [2]bool // by Direction
	delay   time.Duration
}

// NewRelay starts a relay to a TCP address, host:port, which need not listen yet: a connection whose target refuses is
// reset. The caller closes the relay.
func NewRelay(target string) (*Relay, error) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("start a relay to %s: %w", target, err)
	}
	r := &Relay{
		target: target, listener: listener, addr: listener.Addr().(*net.TCPAddr).AddrPort(),
		open: make(map[*RelayConn]struct{}), changed: make(chan struct{}),
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.running.Go(r.accept)
	return r, nil
}

// StartRelay starts a relay that is closed when the test ends. A failure to start ends the test.
func StartRelay(tb testing.TB, target string) *Relay {
	tb.Helper()
	r, err := NewRelay(target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Errorf("close a relay: %v", err)
		}
	})
	return r
}

// Addr returns "host:port" of the relay.
func (r *Relay) Addr() string { return r.addr.String() }

// Close resets all connections, closes the port and waits until all of it has ended. Closing twice is harmless.
func (r *Relay) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.end()
	err := r.listener.Close()
	r.Reset()
	r.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Conns returns the open connections, in no order.
func (r *Relay) Conns() []*RelayConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*RelayConn, 0, len(r.open))
	for c := range r.open {
		all = append(all, c)
	}
	return all
}

// SetDelay holds back everything that comes in for so long, in both directions; 0, as at the start, does not.
func (r *Relay) SetDelay(delay time.Duration) {
	r.change(func() { r.control.delay = delay })
}

// Stall stops forwarding in the given directions, in both when none is given, on connections that are open and on those
// to come. Nothing is lost: the connections stay open, as with a process that is stopped or a cable that is pulled.
func (r *Relay) Stall(directions ...Direction) {
	r.change(func() { r.control.stall(directions) })
}

// Resume ends what Stall began, save for what was stalled on a single connection.
func (r *Relay) Resume() {
	r.change(func() { r.control.stalled = [2]bool{} })
}

// Cut closes all connections as their other ends would in good order (FIN). New ones are accepted.
func (r *Relay) Cut() {
	for _, c := range r.Conns() {
		c.Cut()
	}
}

// Reset breaks all connections (RST). New ones are accepted.
func (r *Relay) Reset() {
	for _, c := range r.Conns() {
		c.Reset()
	}
}

// change changes a control and wakes those who wait on one.
func (r *Relay) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (c *relayControl) stall(directions []Direction) {
	if len(directions) == 0 {
		directions = []Direction{ToServer, ToClient}
	}
	for _, d := range directions {
		c.stalled[d] = true
	}
}

// accept takes connections until the listener is closed.
func (r *Relay) accept() {
	for {
		client, err := r.listener.AcceptTCP()
		if err != nil {
			return // closed; a listener of loopback has no other errors that last
		}
		if c := r.admit(client); c != nil {
			r.running.Go(c.run)
		}
	}
}

// admit notes a connection, or resets one that is too many.
func (r *Relay) admit(client *net.TCPConn) *RelayConn {
	c := &RelayConn{relay: r, client: client, done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.open) >= maxRelayed {
		abort(client)
		return nil
	}
	r.open[c] = struct{}{}
	return c
}

// abort closes a connection with RST.
func abort(c *net.TCPConn) {
	// Where lingering cannot be set the peer gets FIN instead, and where closing fails the connection is gone already.
	_ = c.SetLinger(0)
	_ = c.Close()
}

// finish closes a connection with FIN, also where bytes are left unread, for which closing alone would send RST.
func finish(c *net.TCPConn) {
	_ = c.CloseWrite() // where these fail the connection is gone already
	_ = c.Close()
}

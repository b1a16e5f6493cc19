// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Each direction of a relayed connection holds so many pieces of so many bytes at most.
const (
	relayPieces    = 15
	relayPieceSize = 16 << 10
)

// RelayConn is one connection through a relay. It is safe for concurrent use.
type RelayConn struct {
	relay  *Relay
	client *net.TCPConn
	done   chan struct{}
	once   sync.Once

	// relay.mu guards what follows.
	server  *net.TCPConn // nil before the target has accepted
	control relayControl
	over    bool
}

// piece is what one read brought, and when.
type piece struct {
	bytes []byte // nil for the end of the stream
	at    time.Time
}

// ClientAddr returns the address of the client.
func (c *RelayConn) ClientAddr() net.Addr { return c.client.RemoteAddr() }

// SetDelay is Relay.SetDelay for this connection; the longer of the two counts.
func (c *RelayConn) SetDelay(delay time.Duration) {
	c.relay.change(func() { c.control.delay = delay })
}

// Stall is Relay.Stall for this connection.
func (c *RelayConn) Stall(directions ...Direction) {
	c.relay.change(func() { c.control.stall(directions) })
}

// Resume ends what Stall began on this connection.
func (c *RelayConn) Resume() {
	c.relay.change(func() { c.control.stalled = [2]bool{} })
}

// Cut is Relay.Cut for this connection.
func (c *RelayConn) Cut() { c.close(finish) }

// Reset is Relay.Reset for this connection.
func (c *RelayConn) Reset() { c.close(abort) }

// close ends both sides; the first way to end counts.
func (c *RelayConn) close(end func(*net.TCPConn)) {
	c.once.Do(func() {
		c.relay.mu.Lock()
		c.over = true
		server := c.server
		delete(c.relay.open, c)
		c.relay.mu.Unlock()
		close(c.done)
		end(c.client)
		if server != nil {
			end(server)
		}
	})
}

// run connects to the target and forwards until the connection is over.
func (c *RelayConn) run() {
	ctx, cancel := context.WithTimeout(c.relay.life, relayDialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.relay.target)
	if err != nil {
		c.Reset()
		return
	}
	server := conn.(*net.TCPConn)
	c.relay.mu.Lock()
	over := c.over
	c.server = server
	c.relay.mu.Unlock()
	if over {
		abort(server)
		return
	}
	var pumps sync.WaitGroup
	c.pump(&pumps, ToServer, c.client, server)
	c.pump(&pumps, ToClient, server, c.client)
	pumps.Wait()
	c.Cut() // both directions have ended in good order, or it was closed before
}

// pump forwards one direction. Reading and writing go on side by side, so that a delay delays and does not slow down.
func (c *RelayConn) pump(pumps *sync.WaitGroup, d Direction, from, to *net.TCPConn) {
	pieces := make(chan piece, relayPieces)
	pumps.Go(func() { c.read(from, pieces) })
	pumps.Go(func() { c.write(d, to, pieces) })
}

// read takes in what one side sends, until it has ended or the connection is over.
func (c *RelayConn) read(from *net.TCPConn, pieces chan<- piece) {
	defer close(pieces)
	for {
		buffer := make([]byte, relayPieceSize)
		n, err := from.Read(buffer)
		if n > 0 && !c.offer(pieces, piece{bytes: buffer[:n], at: time.Now()}) {
			return
		}
		if errors.Is(err, io.EOF) {
			c.offer(pieces, piece{at: time.Now()})
			return
		}
		if err != nil {
			c.Reset()
			return
		}
	}
}

// write hands it to the other side when it is due.
func (c *RelayConn) write(d Direction, to *net.TCPConn, pieces <-chan piece) {
	for p := range pieces {
		if !c.await(d, p.at) {
			return
		}
		var err error
		if p.bytes == nil {
			err = to.CloseWrite()
		} else {
			_, err = to.Write(p.bytes)
		}
		if err != nil {
			c.Reset()
			return
		}
	}
}

// offer gives a piece to the writer; it returns false when the connection is over.
func (c *RelayConn) offer(pieces chan<- piece, p piece) bool {
	select {
	case pieces <- p:
		return true
	case <-c.done:
		return false
	}
}

// await waits until a piece that came at that time is to be forwarded; it returns false when the connection is over.
func (c *RelayConn) await(d Direction, at time.Time) bool {
	for {
		r := c.relay
		r.mu.Lock()
		stalled := r.control.stalled[d] || c.control.stalled[d]
		delay := max(r.control.delay, c.control.delay)
		changed := r.changed
		r.mu.Unlock()
		left := time.Until(at.Add(delay))
		if !stalled && left <= 0 {
			return true
		}
		var due <-chan time.Time
		timer := time.NewTimer(left)
		if !stalled {
			due = timer.C
		}
		select {
		case <-due:
		case <-changed:
		case <-c.done:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

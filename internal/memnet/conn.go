// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// window is how many bytes of one direction may be under way, as in a socket's buffers. Without any, both sides of a TLS
// handshake can be stuck in a write: the client with its alert, the server with its session ticket.
const window = 256 << 10

// Pipe returns the two ends of a connection. Deadlines work; what was written before Close can still be read.
func Pipe() (net.Conn, net.Conn) {
	there, back := newFlow(), newFlow()
	return &conn{in: back, out: there}, &conn{in: there, out: back}
}

type conn struct {
	in, out *flow
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b) }

func (c *conn) Close() error {
	c.in.leave()
	c.out.end()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return addr{} }
func (c *conn) RemoteAddr() net.Addr { return addr{} }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	return c.in.setDeadline(&c.in.reading, &c.in.left, t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.out.setDeadline(&c.out.writing, &c.out.ended, t)
}

// flow is one direction of a connection.
type flow struct {
	mu       sync.Mutex
	changed  sync.Cond
	buffered []byte   // guarded by mu
	ended    bool     // guarded by mu: nobody will write any more
	left     bool     // guarded by mu: nobody will read any more
	reading  deadline // guarded by mu
	writing  deadline // guarded by mu
}

// deadline is that of one end.
type deadline struct {
	timer  *time.Timer // nil while none runs
	passed bool
}

func newFlow() *flow {
	f := &flow{}
	f.changed.L = &f.mu
	return f
}

func (f *flow) read(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.left:
			return 0, net.ErrClosed
		case f.reading.passed:
			return 0, os.ErrDeadlineExceeded
		case len(f.buffered) > 0:
			n := copy(b, f.buffered)
			f.buffered = f.buffered[n:]
			f.changed.Broadcast()
			return n, nil
		case f.ended:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		f.changed.Wait()
	}
}

func (f *flow) write(b []byte) (written int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.ended:
			return written, net.ErrClosed
		case f.left:
			return written, io.ErrClosedPipe
		case f.writing.passed:
			return written, os.ErrDeadlineExceeded
		}
		n := min(len(b), window-len(f.buffered))
		if n > 0 {
			f.buffered = append(f.buffered, b[:n]...)
			written += n
			b = b[n:]
			f.changed.Broadcast()
		}
		if len(b) == 0 {
			return written, nil
		}
		f.changed.Wait()
	}
}

// end is the Close of the end that writes.
func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.writing.stop()
	f.changed.Broadcast()
}

// leave is the Close of the end that reads.
func (f *flow) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.buffered = true, nil
	f.reading.stop()
	f.changed.Broadcast()
}

// setDeadline sets one of the flow's two deadlines, unless that end is closed.
func (f *flow) setDeadline(d *deadline, closed *bool, t time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *closed {
		return net.ErrClosed
	}
	d.stop()
	d.passed = false
	if t.IsZero() {
		return nil
	}
	left := time.Until(t)
	if left <= 0 {
		d.passed = true
		f.changed.Broadcast()
		return nil
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if d.timer == timer { // not one that another has replaced
			d.passed = true
			f.changed.Broadcast()
		}
	})
	d.timer = timer
	return nil
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package memnet

import (
	"context"
	"net"
	"sync"
)

// Listener accepts the connections that its DialContext makes. Its methods may be called at the same time.
type Listener struct {
	dialled chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

// Listen returns a listener. It holds nothing that has to be freed.
func Listen() *Listener {
	return &Listener{dialled: make(chan net.Conn), closed: make(chan struct{})}
}

// DialContext connects to the listener, once somebody accepts. After Close it fails with net.ErrClosed.
func (l *Listener) DialContext(ctx context.Context) (net.Conn, error) {
	client, server := Pipe()
	select {
	case l.dialled <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.dialled:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections that were accepted go on.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return "memory" }

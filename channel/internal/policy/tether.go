// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials"
)

// tether holds the open connections of one endpoint, because grpc-go has no way to close the connection of a subchannel
// with its streams. It sees them in the handshake, which comes after dialling, so that unix sockets, proxies and dialers
// of the user stay as they are. It is safe for concurrent use.
type tether struct {
	mu    sync.Mutex
	conns []*strand
}

// strand is one connection. A connection itself is no key: a dialer may return one that cannot be compared.
type strand struct{ net.Conn }

func (t *tether) add(conn net.Conn) *strand {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pruneLocked()
	s := &strand{conn}
	t.conns = append(t.conns, s)
	return s
}

func (t *tether) remove(s *strand) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns = slices.DeleteFunc(t.conns, func(other *strand) bool { return other == s })
}

// slack says that no connection is open.
func (t *tether) slack() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pruneLocked()
	return len(t.conns) == 0
}

// pruneLocked forgets connections that were closed without saying so.
func (t *tether) pruneLocked() {
	t.conns = slices.DeleteFunc(t.conns, func(s *strand) bool { return isClosed(s.Conn) })
}

// isClosed says whether a socket was closed. What is no socket is taken to be open: it says so when it is closed.
func isClosed(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}

// cut closes every connection. Their streams end with Unavailable.
func (t *tether) cut() {
	t.mu.Lock()
	conns := t.conns
	t.conns = nil
	t.mu.Unlock()
	for _, s := range conns {
		_ = s.Close() // it is being given up; there is nobody to tell
	}
}

// tetherBundle gives the subchannels of one endpoint the channel's credentials and puts their connections on the tether.
type tetherBundle struct {
	transport credentials.TransportCredentials
	perRPC    credentials.PerRPCCredentials // nil when the channel has none in a bundle
}

// newTetherBundle returns nil when the channel's credentials are not to be had: then a drain has no end of its own.
func newTetherBundle(opts balancer.BuildOptions, t *tether) credentials.Bundle {
	bundle := tetherBundle{}
	transport := opts.DialCreds
	if opts.CredsBundle != nil {
		transport = opts.CredsBundle.TransportCredentials()
		bundle.perRPC = opts.CredsBundle.PerRPCCredentials()
	}
	if transport == nil {
		return nil
	}
	bundle.transport = tetherCredentials{TransportCredentials: transport, tether: t}
	return bundle
}

func (b tetherBundle) TransportCredentials() credentials.TransportCredentials { return b.transport }

func (b tetherBundle) PerRPCCredentials() credentials.PerRPCCredentials { return b.perRPC }

// NewWithMode is for balancers that talk to a balancer, which ours do not.
func (b tetherBundle) NewWithMode(string) (credentials.Bundle, error) { return b, nil }

type tetherCredentials struct {
	credentials.TransportCredentials

	tether *tether
}

// ClientHandshake has the connection on the tether from the first byte of the handshake, which may hang.
func (c tetherCredentials) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	strand := c.tether.add(raw)
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		c.tether.remove(strand)
		return nil, nil, err
	}
	// grpc-go reads from a socket without holding a buffer of 32 KiB for it while nothing comes, but only from one that it
	// knows. So that one stays as it is; that it was closed is seen when somebody looks.
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		if conn == raw {
			return conn, info, nil
		}
	}
	held := &tetheredConn{Conn: conn, strand: strand, tether: c.tether}
	if system, ok := conn.(syscall.Conn); ok {
		return &tetheredSystemConn{tetheredConn: held, Conn: system}, info, nil
	}
	return held, info, nil
}

func (c tetherCredentials) Clone() credentials.TransportCredentials {
	c.TransportCredentials = c.TransportCredentials.Clone()
	return c
}

// tetheredConn leaves the tether when it is closed.
type tetheredConn struct {
	net.Conn

	strand *strand
	tether *tether
}

func (c *tetheredConn) Close() error {
	c.tether.remove(c.strand)
	return c.Conn.Close()
}

// tetheredSystemConn lets channelz see the options of the socket.
type tetheredSystemConn struct {
	*tetheredConn
	syscall.Conn
}

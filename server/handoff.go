// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// handoff is a net.Listener whose connections come from the port's accept loop. grpc-go and net/http each serve one.
type handoff struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandoff() *handoff {
	return &handoff{conns: make(chan net.Conn), done: make(chan struct{})}
}

// give passes a connection on and reports whether it was taken; when the listener is closed the connection is still the
// caller's.
func (h *handoff) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.done:
		return false
	}
}

// Accept returns the next connection, or net.ErrClosed once the listener is closed.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. It closes no connection.
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr says that the connections come from inside the process.
func (h *handoff) Addr() net.Addr { return handoffAddr{} }

type handoffAddr struct{}

func (handoffAddr) Network() string { return "evenkeel" }
func (handoffAddr) String() string  { return "handoff" }

// errNoClientSide is returned when the credentials of the port are used to dial.
var errNoClientSide = errors.New("the credentials of the port do not dial")

// handedOver are the gRPC credentials of connections whose TLS handshake is over: they tell grpc-go what TLS found out,
// so that calls see their peer's certificate as they do with gRPC's own TLS credentials.
type handedOver struct{}

// ServerHandshake returns the connection as it is.
func (handedOver) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, ok := c.(*tls.Conn)
	if !ok {
		return nil, nil, errors.New("the connection handed over has no TLS")
	}
	return c, credentials.TLSInfo{
		State:          secure.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// ClientHandshake fails: these credentials are a server's.
func (handedOver) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errNoClientSide
}

// Info describes the protocol.
func (handedOver) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone returns the same: there is no state.
func (h handedOver) Clone() credentials.TransportCredentials { return h }

// OverrideServerName does nothing on a server.
func (handedOver) OverrideServerName(string) error { return nil }

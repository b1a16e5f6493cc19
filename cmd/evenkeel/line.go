// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evenkeel-go/evenkeel/connstring"
)

// line is a connection to one server for commands. It remembers why it could not be made, of which gRPC tells in words only.
type line struct {
	address string
	conn    *grpc.ClientConn

	mu    sync.Mutex
	cause error // guarded by mu
}

// newLine makes a line, which connects when it is used. The caller closes it. Without a configuration it has no TLS.
func newLine(host connstring.Host, config *tls.Config) (*line, error) {
	l := &line{address: net.JoinHostPort(host.Name, strconv.Itoa(int(host.Port)))}
	transport := insecure.NewCredentials()
	if config != nil {
		transport = watched{credentials.NewTLS(config), l}
	}
	var err error
	l.conn, err = grpc.NewClient("passthrough:///"+l.address,
		grpc.WithTransportCredentials(transport), grpc.WithContextDialer(l.dial), grpc.WithDisableServiceConfig())
	return l, err
}

func (l *line) dial(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	l.note(err)
	return conn, err
}

func (l *line) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cause = err
}

// failure is why the connection could not be made; nil when it could.
func (l *line) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

func (l *line) close() error { return l.conn.Close() }

// watched are credentials that tell a line of a handshake that failed.
type watched struct {
	credentials.TransportCredentials
	line *line
}

func (w watched) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, raw)
	w.line.note(err)
	return conn, info, err
}

func (w watched) Clone() credentials.TransportCredentials {
	return watched{w.TransportCredentials.Clone(), w.line}
}

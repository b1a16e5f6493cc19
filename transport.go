// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/certerr"
)

const (
	pingInterval = 60 * time.Second
	pingTimeout  = 30 * time.Second

	// leaveLimit is how long a server may take to take in that the client leaves.
	leaveLimit = 20 * time.Millisecond
)

// errNoHTTP2 is what a server gets that completes the handshake and then says nothing a gRPC client understands.
var errNoHTTP2 = errors.New("the server does not answer in HTTP/2")

// transport is a gRPC connection over one TCP connection that was dialled by somebody else: grpc-go gets that one and,
// when it is lost, never another.
type transport struct {
	conn *grpc.ClientConn

	tcp       net.Conn                 // the connection below all
	raw       atomic.Pointer[net.Conn] // tcp until it is handed to grpc-go, once
	handshake chan error               // the result of the one handshake
	broken    atomic.Pointer[error]    // the first error of the connection
}

// newTransport speaks gRPC with endpoint over raw, which it owns from now on. It waits for the handshake and for the
// server's first HTTP/2 frame. A nil config means plaintext.
func newTransport(
	ctx context.Context, raw net.Conn, endpoint discover.Endpoint, config *tls.Config, opts []grpc.DialOption,
) (*transport, error) {
	t := &transport{tcp: raw, handshake: make(chan error, 1)}
	t.raw.Store(&raw)
	creds, explain := insecure.NewCredentials(), certerr.Explain
	if config != nil {
		watched, asked := certerr.Watch(config)
		creds, explain = credentials.NewTLS(watched), asked.Explain
	}
	opts = append(opts[:len(opts):len(opts)],
		grpc.WithTransportCredentials(&observedCreds{
			TransportCredentials: creds, transport: t, serverName: endpoint.VerifyName(), explain: explain,
		}),
		grpc.WithContextDialer(t.dial),
		grpc.WithAuthority(endpoint.Authority()),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(policyConfig),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: pingInterval, Timeout: pingTimeout, PermitWithoutStream: true,
		}))
	// The name in the target is for nobody: the dialer has the connection already. A zone could not stand in it.
	conn, err := grpc.NewClient("passthrough:///session", opts...)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	t.conn = conn
	conn.Connect()
	if err := t.awaitReady(ctx); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// dial hands the one connection to grpc-go, which asks once (see policy).
func (t *transport) dial(context.Context, string) (net.Conn, error) {
	if raw := t.raw.Swap(nil); raw != nil {
		return *raw, nil
	}
	return nil, errGone
}

// awaitReady waits until grpc-go has seen the server's settings.
func (t *transport) awaitReady(ctx context.Context) error {
	for state := t.conn.GetState(); state != connectivity.Ready; state = t.conn.GetState() {
		if state == connectivity.TransientFailure {
			return t.failedHandshake()
		}
		if !t.conn.WaitForStateChange(ctx, state) {
			return t.timedOut(ctx)
		}
	}
	return nil
}

// failedHandshake is why the connection did not become ready.
func (t *transport) failedHandshake() error {
	select {
	case err := <-t.handshake:
		if err != nil {
			return err
		}
	default:
	}
	if err := t.failure(); err != nil {
		return err
	}
	return errNoHTTP2
}

// timedOut says how far the connection came before ctx ended.
func (t *transport) timedOut(ctx context.Context) error {
	select {
	case err := <-t.handshake:
		if err == nil {
			return errors.Join(errNoHTTP2, ctx.Err())
		}
		return err
	default:
		return &handshakeTimeout{cause: ctx.Err()}
	}
}

// handshakeTimeout is a handshake that took too long.
type handshakeTimeout struct{ cause error }

func (e *handshakeTimeout) Error() string { return "TLS handshake: " + e.cause.Error() }

func (e *handshakeTimeout) Unwrap() error { return e.cause }

// failure is the first error that the connection itself had; nil while it works.
func (t *transport) failure() error {
	if err := t.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// broke is failure as the loss of a session.
func (t *transport) broke() error {
	if err := t.failure(); err != nil {
		return fmt.Errorf("%w: %w", ErrTransportLost, err)
	}
	return nil
}

// close takes leave of the server, which is given a moment for it: grpc-go waits for up to 5 s for one that takes nothing
// in. Nobody can act on an error here.
func (t *transport) close() {
	cut := time.AfterFunc(leaveLimit, func() { _ = t.tcp.Close() })
	_ = t.conn.Close()
	cut.Stop()
	_ = t.tcp.Close() // for the case that grpc-go never asked for it
}

// observedCreds reports the result of the handshake, which grpc-go keeps as text only, and the errors of the
// connection, which tell a broken connection from a stream that the server ended.
type observedCreds struct {
	credentials.TransportCredentials
	transport  *transport
	serverName string
	explain    func(err error, name string) error // words the error of the handshake
}

func (c *observedCreds) ClientHandshake(
	ctx context.Context, _ string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, c.serverName, raw)
	if err != nil {
		err = c.explain(err, c.serverName)
	}
	c.transport.handshake <- err
	if err != nil {
		return nil, nil, err
	}
	return &observedConn{Conn: certerr.HearOut(conn), broken: &c.transport.broken}, info, nil
}

func (c *observedCreds) Clone() credentials.TransportCredentials {
	clone := *c
	clone.TransportCredentials = c.TransportCredentials.Clone()
	return &clone
}

// observedConn keeps the first error of a connection.
type observedConn struct {
	net.Conn
	broken *atomic.Pointer[error]
}

func (c *observedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.broken.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (c *observedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.broken.CompareAndSwap(nil, &err)
	}
	return n, err
}

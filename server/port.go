// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"time"
)

// port takes connections in and hands each to the half of the server that speaks its protocol: gRPC clients to grpc-go's
// own transport, everything else to net/http. It runs the TLS handshakes itself, for three reasons: what the client
// offered is known before the connection is handed on, silent peers are bounded, and closing need not wait for any of
// them.
type port struct {
	tls       *tls.Config // nil serves everything in plaintext through net/http
	timeout   time.Duration
	admission *admission
	native    *handoff
	web       *handoff
	logger    *slog.Logger

	open conns
	wg   inFlight        // handshakes
	life context.Context //nolint:containedctx // that of the handshakes, which begin at any time
	end  context.CancelFunc
}

// serve accepts until the listener fails. It returns the listener's error.
func (p *port) serve(listener net.Listener) error {
	var pause time.Duration
	for {
		accepted, err := listener.Accept()
		if err != nil {
			if !isTemporary(err) {
				return err
			}
			pause = nextPause(pause)
			p.logger.Warn("cannot accept a connection, trying again", slog.Any("error", err), slog.Duration("after", pause))
			if !p.sleep(pause) {
				return err
			}
			continue
		}
		pause = 0
		p.take(accepted)
	}
}

// take starts the handshake of an accepted connection, or closes it when there are too many.
func (p *port) take(accepted net.Conn) {
	c, ok := p.open.add(accepted)
	if !ok {
		p.logger.Debug("the server is closed or has too many connections, closing a new one", slog.Any("peer", accepted.RemoteAddr()))
		_ = accepted.Close() // nothing was sent
		return
	}
	if err := setUserTimeout(accepted); err != nil {
		p.logger.Debug("cannot set TCP_USER_TIMEOUT", slog.Any("error", err))
	}
	if p.tls == nil {
		p.hand(c, p.web)
		return
	}
	if !p.admission.enter(c.from) {
		p.logger.Debug("too many handshakes, closing a new connection", slog.Any("peer", accepted.RemoteAddr()))
		_ = c.Close()
		return
	}
	if !p.wg.enter() {
		p.admission.leave(c.from)
		_ = c.Close() // the server is closed
		return
	}
	go func() {
		defer p.wg.leave()
		p.handshake(c)
	}()
}

// handshake runs the TLS handshake and hands the connection on.
func (p *port) handshake(c *conn) {
	ctx, cancel := context.WithTimeout(p.life, p.timeout)
	secure := tls.Server(c, p.tls)
	err := secure.HandshakeContext(ctx)
	if err != nil {
		p.logger.Debug("TLS handshake", slog.Any("peer", c.RemoteAddr()), slog.Any("error", err))
		if p.tls.ClientAuth != tls.NoClientCert && ctx.Err() == nil {
			p.leaveWord(c)
		}
		cancel()
		p.admission.leave(c.from)
		_ = c.Close()
		return
	}
	cancel()
	p.admission.leave(c.from)
	if c.onlyHTTP2 {
		p.hand(secure, p.native)
		return
	}
	p.hand(secure, p.web)
}

// How long a client may take to read why its certificate was refused, and how much it may have sent meanwhile.
const (
	wordTimeout = time.Second
	wordBytes   = 64 << 10
)

// leaveWord lets a client read why it was refused. With TLS 1.3 it has sent its first request by then: closing the
// connection with that unread would reset it, and take the alert away from the client.
func (p *port) leaveWord(c *conn) {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(wordTimeout)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.Conn, wordBytes) // the client closes, or its time is up
}

// hand passes a connection on, and closes it when the other side has stopped.
func (p *port) hand(c net.Conn, to *handoff) {
	if !to.give(c) {
		_ = c.Close()
	}
}

// close cuts every connection. The handshakes end with that, or with their context where one waits for a certificate;
// wait waits for them. The listeners are closed by their owner before.
func (p *port) close() {
	p.end()
	_ = p.native.Close() // never fails
	_ = p.web.Close()
	p.open.closeAll()
}

func (p *port) wait() { p.wg.wait() }

// sleep waits, and reports false when the port is closed meanwhile.
func (p *port) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.life.Done():
		return false
	}
}

// isTemporary tells an error of one connection or a shortage, as of file descriptors, from the end of the listener.
func isTemporary(err error) bool {
	temporary, ok := err.(interface{ Temporary() bool })
	return ok && temporary.Temporary()
}

// nextPause doubles the pause after a failed accept, from 5 ms to 1 s.
func nextPause(pause time.Duration) time.Duration {
	return min(max(2*pause, 5*time.Millisecond), time.Second)
}

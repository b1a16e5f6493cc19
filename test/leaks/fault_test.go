// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package leaks_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

// refusedAddr is an address on which nobody listens.
func refusedAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// trap is a server that takes connections and does something unpleasant with each until the test ends.
type trap struct {
	listener net.Listener
	handle   func(conn net.Conn, caught func()) error
	running  sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{} // guarded by mu; those that are open
	caught int                   // guarded by mu; how many have got stuck so far
	more   chan struct{}         // guarded by mu; closed and replaced when caught changes
}

// startTrap starts a trap. handle may use the connection until it is closed, by either side, and calls caught when the
// client has got as far as it will.
func startTrap(t *testing.T, handle func(conn net.Conn, caught func()) error) *trap {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tr := &trap{listener: listener, handle: handle, conns: make(map[net.Conn]struct{}), more: make(chan struct{})}
	tr.running.Go(tr.serve)
	t.Cleanup(tr.close)
	return tr
}

func (tr *trap) addr() string { return tr.listener.Addr().String() }

func (tr *trap) serve() {
	for {
		conn, err := tr.listener.Accept()
		if err != nil {
			return
		}
		tr.mu.Lock()
		tr.conns[conn] = struct{}{}
		tr.mu.Unlock()
		tr.running.Go(func() {
			// Whatever goes wrong, the client has gone or the trap is closed, and that is the point.
			_ = tr.handle(conn, tr.count)
			_ = conn.Close()
			tr.mu.Lock()
			defer tr.mu.Unlock()
			delete(tr.conns, conn)
		})
	}
}

func (tr *trap) count() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.caught++
	close(tr.more)
	tr.more = make(chan struct{})
}

// await waits until n clients have got stuck.
func (tr *trap) await(ctx context.Context, n int) error {
	for {
		tr.mu.Lock()
		caught, more := tr.caught, tr.more
		tr.mu.Unlock()
		if caught >= n {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d clients in the trap, %d came: %w", n, caught, ctx.Err())
		}
	}
}

func (tr *trap) close() {
	_ = tr.listener.Close()
	tr.mu.Lock()
	for conn := range tr.conns {
		_ = conn.Close()
	}
	tr.mu.Unlock()
	tr.running.Wait()
}

// silent reads and never writes.
func silent(conn net.Conn, caught func()) error {
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return err
	}
	caught()
	_, err := io.Copy(io.Discard, conn)
	return err
}

// silentAfterHandshake completes the handshake as a gRPC server would, and then reads and never writes.
func silentAfterHandshake(t *testing.T) func(conn net.Conn, caught func()) error {
	t.Helper()
	certificate, err := devcert.New()
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	return func(conn net.Conn, caught func()) error {
		secured := tls.Server(conn, config)
		return errors.Join(secured.Handshake(), silent(secured, caught))
	}
}

// garbage answers a ClientHello with what is no TLS.
func garbage(conn net.Conn, _ func()) error {
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return err
	}
	_, err := conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	return err
}

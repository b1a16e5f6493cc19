// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/server"
)

// A certificate may come from a service that does not answer; the handshake that waits for it ends with the server.
func TestCloseEndsAHandshakeThatWaitsForACertificate(t *testing.T) {
	t.Parallel()
	waiting := make(chan struct{})
	s, err := server.New(server.Config{TLS: &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			close(waiting)
			<-hello.Context().Done()
			return nil, hello.Context().Err()
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	dialled := make(chan error, 1)
	go func() {
		conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test's
		if err == nil {
			err = errors.Join(errors.New("there was a certificate after all"), conn.Close())
		}
		dialled <- err
	}()
	<-waiting
	began := time.Now()
	s.Close()
	// The promise is 100 ms; the handshake's own limit is 10 s.
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("Close took %v", d)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve returned %v, want nil", err)
	}
	if err := <-dialled; err == nil || err.Error() == "there was a certificate after all" {
		t.Errorf("the client got %v, want a failed handshake", err)
	}
}

// Connections come in while the server closes: their handshakes are waited for or never begin. The race detector looks.
func TestCloseWhileConnectionsComeIn(t *testing.T) {
	t.Parallel()
	certificate, err := devcert.New()
	if err != nil {
		t.Fatalf("make a certificate: %v", err)
	}
	for range 50 {
		f := serveTCP(t, server.Config{TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}})
		ctx, cancel := context.WithCancel(t.Context())
		var dialling sync.WaitGroup
		for range 2 {
			dialling.Go(func() {
				for ctx.Err() == nil {
					conn, err := net.Dial("tcp", f.addr)
					if err != nil {
						return // it is closed
					}
					_ = conn.Close() // by either side
				}
			})
		}
		eventually(t, "a connection", func() bool { return f.Addr() != nil })
		f.Close()
		cancel()
		dialling.Wait()
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"crypto/tls"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

// With TLS 1.3 the refusal comes after the client's handshake, and the connection is reset by requests that are on their
// way. What the probe tells is the refusal all the same.
func TestAMissingClientCertificateIsToldThoughTheConnectionIsReset(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"h2", "http/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			pair, err := devcert.New()
			if err != nil {
				t.Fatal(err)
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			config := &tls.Config{
				Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{protocol},
			}
			var serving sync.WaitGroup
			serving.Go(func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					serving.Go(func() { refuse(t, conn, config) })
				}
			})
			t.Cleanup(func() {
				if err := listener.Close(); err != nil {
					t.Error(err)
				}
				serving.Wait()
			})
			addr := netip.MustParseAddrPort(listener.Addr().String())
			endpoint := discover.Endpoint{Host: addr.Addr().String(), Port: addr.Port()}
			for range 20 {
				prober := newProber(t, balance.ProberConfig{TLS: &tls.Config{InsecureSkipVerify: true}}) //nolint:gosec // a test server's
				_, err := prober.Count(testContext(t), endpoint)
				for _, err := range []error{err, balance.AskTheDeadForTest(testContext(t), prober, endpoint)} {
					if err == nil || !strings.Contains(err.Error(), "the server wants a client certificate, and got none") {
						t.Fatalf("got %v, want to be told of the certificate", err)
					}
				}
			}
		})
	}
}

// refuse ends a connection without a client certificate in the way that loses most.
func refuse(t *testing.T, conn net.Conn, config *tls.Config) {
	if err := tls.Server(conn, config).Handshake(); err == nil {
		t.Error("got a client certificate, want none")
	}
	var one [1]byte
	_, _ = conn.Read(one[:]) // the first of what the client sends, or of its leave
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

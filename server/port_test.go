// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/server"
)

// connCounter counts what grpc-go takes for connections: on its own transport those are connections, through ServeHTTP
// they are calls. It also keeps what the last call knew of its peer.
type connCounter struct {
	conns  atomic.Int64
	caller atomic.Pointer[peer.Peer]
}

func (c *connCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	if caller, ok := peer.FromContext(ctx); ok {
		c.caller.Store(caller)
	}
	return ctx
}
func (c *connCounter) HandleRPC(context.Context, stats.RPCStats)                         {}
func (c *connCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (c *connCounter) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		c.conns.Add(1)
	}
}

// askHealth makes a short unary call.
func askHealth(t *testing.T, conn *grpc.ClientConn) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err == nil && answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return errors.New("status " + answer.GetStatus().String())
	}
	return err
}

func TestOnePortServesAllThree(t *testing.T) {
	t.Parallel()
	counter := &connCounter{}
	f := serveTCP(t, server.Config{GRPCOptions: []grpc.ServerOption{grpc.StatsHandler(counter)}})
	conn := f.grpcConn(t)
	s := connect(t, conn, named("one"))
	for _, version := range []int{1, 2} {
		client := f.httpClient(t, version)
		for range 3 {
			if got := do(t, client, "GET", f.url("/connections/count"), nil); got.body != "1" || got.ProtoMajor != version {
				t.Errorf("count: got %q over %s, want 1 over HTTP/%d", got.body, got.Proto, version)
			}
		}
	}
	for range 3 {
		if err := askHealth(t, conn); err != nil {
			t.Errorf("call: %v", err)
		}
	}
	if got := counter.conns.Load(); got != 1 {
		t.Errorf("connections that grpc-go serves itself: got %d, want 1", got)
	}
	if id, ok := <-s.beats; !ok || id != "one" {
		t.Errorf("stream beside all that: got %q, %v, want it alive", id, s.err)
	}
}

// offering makes grpc-go offer other protocols than its own, as other clients do.
type offering struct {
	credentials.TransportCredentials
	config *tls.Config
}

func (o offering) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn := tls.Client(raw, o.config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	return conn, credentials.TLSInfo{State: conn.ConnectionState()}, nil
}
func (o offering) Clone() credentials.TransportCredentials { return o }

func TestGRPCOnAConnectionThatOffersBoth(t *testing.T) {
	t.Parallel()
	counter := &connCounter{}
	f := serveTCP(t, server.Config{GRPCOptions: []grpc.ServerOption{grpc.StatsHandler(counter)}})
	config := &tls.Config{RootCAs: f.roots, ServerName: "localhost", NextProtos: []string{"h2", "http/1.1"}}
	conn := f.grpcConn(t, grpc.WithTransportCredentials(offering{credentials.NewTLS(config), config}))
	connect(t, conn, named("one"))
	if err := askHealth(t, conn); err != nil {
		t.Errorf("call: %v", err)
	}
	if got := counter.conns.Load(); got != 2 {
		t.Errorf("what grpc-go takes for connections: got %d, want one for each of 2 calls, which came by net/http", got)
	}
}

func TestCallsKnowTheirPeer(t *testing.T) {
	t.Parallel()
	for _, offer := range [][]string{{"h2"}, {"h2", "http/1.1"}} {
		counter := &connCounter{}
		f := serveTCP(t, server.Config{GRPCOptions: []grpc.ServerOption{grpc.StatsHandler(counter)}})
		config := &tls.Config{RootCAs: f.roots, ServerName: "localhost", NextProtos: offer}
		conn := f.grpcConn(t, grpc.WithTransportCredentials(offering{credentials.NewTLS(config), config}))
		if err := askHealth(t, conn); err != nil {
			t.Fatalf("call, offering %v: %v", offer, err)
		}
		caller := counter.caller.Load()
		if host, _, err := net.SplitHostPort(caller.Addr.String()); err != nil || host != "127.0.0.1" {
			t.Errorf("peer, offering %v: got %v, want 127.0.0.1", offer, caller.Addr)
		}
		if info, ok := caller.AuthInfo.(credentials.TLSInfo); !ok || info.State.ServerName != "localhost" || info.SecurityLevel != credentials.PrivacyAndIntegrity {
			t.Errorf("TLS, offering %v: got %#v, want the state of the handshake", offer, caller.AuthInfo)
		}
	}
}

func TestALPN(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{})
	tests := []struct {
		name  string
		offer []string
		want  string
	}{
		{"none", nil, ""},
		{"HTTP/1.1", []string{"http/1.1"}, "http/1.1"},
		{"HTTP/1.0", []string{"http/1.0"}, "http/1.0"},
		{"both", []string{"http/1.1", "h2"}, "h2"},
		{"HTTP/2", []string{"h2"}, "h2"},
		{"an old gRPC", []string{"grpc-exp", "h2"}, "h2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, err := tls.Dial("tcp", f.addr, &tls.Config{RootCAs: f.roots, ServerName: "localhost", NextProtos: tt.offer})
			if err != nil {
				t.Fatalf("dial: %v", err)
			}
			defer func() { _ = conn.Close() }()
			if got := conn.ConnectionState().NegotiatedProtocol; got != tt.want {
				t.Errorf("protocol: got %q, want %q", got, tt.want)
			}
			if tt.want == "h2" {
				return
			}
			if _, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatalf("write: %v", err)
			}
			if got, err := io.ReadAll(conn); err != nil || !bytes.HasSuffix(got, []byte("\r\n\r\nHealthy")) {
				t.Errorf("health: got %q, %v, want Healthy", got, err)
			}
		})
	}
}

// The price of routing by the offer, as the documentation says.
func TestHTTPClientThatOffersHTTP2AloneGets415(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{})
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: f.roots, ServerName: "localhost"}}
	defer transport.CloseIdleConnections()
	if got := do(t, &http.Client{Transport: transport}, "GET", f.url("/health"), nil).StatusCode; got != http.StatusUnsupportedMediaType {
		t.Errorf("got %d, want 415", got)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	certificate, err := devcert.New()
	if err != nil {
		t.Fatalf("make a certificate: %v", err)
	}
	lax := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS10}
	asked := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return lax, nil }}
	for _, config := range []*tls.Config{lax, asked} {
		f := serveTCP(t, server.Config{TLS: config})
		client := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
		if conn, err := tls.Dial("tcp", f.addr, client); err == nil {
			t.Errorf("TLS 1.1: got a connection, want none")
			_ = conn.Close()
		}
		client.MaxVersion = tls.VersionTLS12
		conn, err := tls.Dial("tcp", f.addr, client)
		if err != nil {
			t.Errorf("TLS 1.2: %v", err)
			continue
		}
		_ = conn.Close()
	}
}

// A configuration chosen for each client, here one that asks for a client certificate, keeps working on both halves.
func TestConfigChosenForAClient(t *testing.T) {
	t.Parallel()
	ca, err := devcert.NewCA()
	if err != nil {
		t.Fatalf("new CA: %v", err)
	}
	serverCertificate, err := ca.Issue("localhost")
	if err != nil {
		t.Fatalf("issue: %v", err)
	}
	clientCertificate, err := devcert.New()
	if err != nil {
		t.Fatalf("make a client certificate: %v", err)
	}
	counter := &connCounter{}
	f := serveTCP(t, server.Config{
		GRPCOptions: []grpc.ServerOption{grpc.StatsHandler(counter)},
		TLS: &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{serverCertificate}, ClientAuth: tls.RequireAnyClientCert}, nil
		}},
	})
	config := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{clientCertificate}}
	conn := f.grpcConn(t, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err := askHealth(t, conn); err != nil {
		t.Fatalf("call: %v", err)
	}
	info, ok := counter.caller.Load().AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) != 1 || !info.State.PeerCertificates[0].Equal(clientCertificate.Leaf) {
		t.Errorf("peer certificate: got %v, want the client's", info.State.PeerCertificates)
	}
}

func TestMaxConcurrentStreams(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{MaxConcurrentStreams: 2})
	conn := f.grpcConn(t)
	connect(t, conn, named("one"))
	connect(t, conn, named("two"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if got, want := status.Code(err), codes.DeadlineExceeded; got != want {
		t.Errorf("third call on the connection: got %v (%v), want it to wait in vain", got, err)
	}
}

// The development certificate is what stock clients that trust localhost expect.
func TestDevelopmentCertificate(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	s, err := server.New(server.Config{DevelopmentNames: []string{"node1.test"}, Logger: log.logger()})
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	defer func() {
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer func() { _ = conn.Close() }()
	leaf := conn.ConnectionState().PeerCertificates[0]
	for _, name := range []string{"localhost", "chronicle", "127.0.0.1", "::1", "node1.test"} {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Errorf("certificate: %v", err)
		}
	}
	if got := leaf.PublicKeyAlgorithm; got != x509.ECDSA {
		t.Errorf("key: got %v, want ECDSA", got)
	}
	if got := log.String(); !bytes.Contains([]byte(got), []byte("development certificate")) || !bytes.Contains([]byte(got), []byte("level=WARN")) {
		t.Errorf("log: got %q, want a warning", got)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/status"
)

func stateOf(parsed *serviceconfig.ParseResult, addrs ...string) resolver.State {
	state := resolver.State{ServiceConfig: parsed}
	for _, addr := range addrs {
		state.Endpoints = append(state.Endpoints, at(addr))
	}
	return state
}

// security is how a client and its servers trust each other.
type security struct {
	name   string
	server []grpc.ServerOption
	client []grpc.DialOption
}

// securities are those that a policy must leave as they are when it wraps them.
func securities(tb testing.TB) []security {
	certificate, roots := newCertificate(tb)
	serverTLS := grpc.Creds(credentials.NewServerTLSFromCert(&certificate))
	clientTLS := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "fleet.test", MinVersion: tls.VersionTLS13})
	checked := []grpc.ServerOption{
		serverTLS, grpc.UnaryInterceptor(wantToken), grpc.StreamInterceptor(wantTokenInStream),
	}
	return []security{
		{name: "plaintext"},
		{name: "TLS", server: []grpc.ServerOption{serverTLS}, client: []grpc.DialOption{grpc.WithTransportCredentials(clientTLS)}},
		{
			name:   "TLS and a token per call",
			server: checked,
			client: []grpc.DialOption{grpc.WithTransportCredentials(clientTLS), grpc.WithPerRPCCredentials(token{})},
		},
		{
			name:   "bundle",
			server: checked,
			client: []grpc.DialOption{
				grpc.WithTransportCredentials(nil), grpc.WithCredentialsBundle(bundle{clientTLS}), grpc.WithAuthority("fleet.test"),
			},
		},
	}
}

type token struct{}

func (token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"token": "let me in"}, nil
}

func (token) RequireTransportSecurity() bool { return true }

type bundle struct {
	tls credentials.TransportCredentials
}

func (b bundle) TransportCredentials() credentials.TransportCredentials { return b.tls }
func (bundle) PerRPCCredentials() credentials.PerRPCCredentials         { return token{} }
func (b bundle) NewWithMode(string) (credentials.Bundle, error)         { return b, nil }

func wantToken(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := checkToken(ctx); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func wantTokenInStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := checkToken(stream.Context()); err != nil {
		return err
	}
	return next(srv, stream)
}

func checkToken(ctx context.Context) error {
	if md, _ := metadata.FromIncomingContext(ctx); len(md.Get("token")) != 1 {
		return status.Errorf(codes.Unauthenticated, "got tokens %q, want one", md.Get("token"))
	}
	return nil
}

// newCertificate makes a certificate for fleet.test that is its own root.
func newCertificate(tb testing.TB) (tls.Certificate, *x509.CertPool) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fleet.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"fleet.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// uncomparable is a connection that cannot be the key of a map.
type uncomparable struct {
	net.Conn

	onClose func()
}

func (c uncomparable) Close() error {
	c.onClose()
	return c.Conn.Close()
}

func TestConnectionsOfADialerNeedNotBeComparable(t *testing.T) {
	t.Parallel()
	for _, how := range securities(t) {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			w := newLoopback(t)
			a, b := w.start("", how.server...), w.start("", how.server...)
			closed := make(chan struct{}, 16)
			dial := func(ctx context.Context, addr string) (net.Conn, error) {
				raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
				if err != nil {
					return nil, err
				}
				return uncomparable{Conn: raw, onClose: func() { closed <- struct{}{} }}, nil
			}
			opts := append([]grpc.DialOption{grpc.WithContextDialer(dial)}, how.client...)
			c := w.client(policies()[0], `{"drainTimeout":"0.05s"}`, opts...)
			c.update(b.addr)
			stream, _ := c.hold(t.Context())
			done := ended(stream)
			c.update(a.addr)
			wantServers(t, c, a.addr)
			select {
			case err := <-done:
				if status.Code(err) != codes.Unavailable {
					t.Errorf("got %v, want Unavailable", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("the stream was not cut at the end of the drain")
			}
			select {
			case <-closed:
			case <-time.After(10 * time.Second):
				t.Error("the connection was not closed through its own Close")
			}
		})
	}
}

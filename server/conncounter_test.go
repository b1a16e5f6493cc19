// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/evenkeel-go/evenkeel/server"
)

// countBy asks a registry's handler, as a client does that has no session.
func countBy(t *testing.T, registry *server.Registry, method, path string) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(method, path, nil)
	request.RemoteAddr = "127.0.0.1:9"
	registry.Handler().ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK {
		t.Fatalf("%s %s: got status %d, want 200", method, path, recorder.Code)
	}
	return recorder.Body.String()
}

// awaitCount waits until the registry's handler says so.
func awaitCount(t *testing.T, registry *server.Registry, want string) {
	t.Helper()
	eventually(t, "a count of "+want, func() bool { return countBy(t, registry, http.MethodGet, "/connections/count") == want })
}

func TestConnectionsOfAServerWithoutSessionsAreCounted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		serve func(t *testing.T, registry *server.Registry, listener net.Listener)
	}{
		{"grpc-go's own transport", func(t *testing.T, registry *server.Registry, listener net.Listener) {
			s := grpc.NewServer(grpc.StatsHandler(registry.ConnCounter()))
			grpc_health_v1.RegisterHealthServer(s, health.NewServer())
			done := make(chan error, 1)
			go func() { done <- s.Serve(listener) }()
			t.Cleanup(func() {
				s.Stop()
				if err := <-done; err != nil {
					t.Errorf("serve: %v", err)
				}
			})
		}},
		{"net/http", func(t *testing.T, registry *server.Registry, listener net.Listener) {
			s := grpc.NewServer()
			grpc_health_v1.RegisterHealthServer(s, health.NewServer())
			web := &http.Server{Handler: s, ConnState: registry.ConnCounter().ConnState, Protocols: new(http.Protocols)}
			web.Protocols.SetUnencryptedHTTP2(true)
			done := make(chan error, 1)
			go func() { done <- web.Serve(listener) }()
			t.Cleanup(func() {
				_ = web.Close() // of a listener that is open
				s.Stop()
				if err := <-done; !errors.Is(err, http.ErrServerClosed) {
					t.Errorf("serve: %v", err)
				}
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			registry := server.NewRegistry(server.RegistryConfig{})
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatalf("listen: %v", err)
			}
			tt.serve(t, registry, listener)
			countBy(t, registry, http.MethodPost, "/connections/reserve")
			awaitCount(t, registry, "1")
			var conns []*grpc.ClientConn
			for range 3 {
				conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
					}))
				if err != nil {
					t.Fatalf("new client: %v", err)
				}
				defer func() { _ = conn.Close() }() // closed below, unless the test fails before
				// Two calls on each: it is not calls that are counted.
				for range 2 {
					if err := askHealth(t, conn); err != nil {
						t.Fatalf("call: %v", err)
					}
				}
				conns = append(conns, conn)
			}
			// The first one has taken up the reservation.
			awaitCount(t, registry, "3")
			for _, conn := range conns {
				_ = conn.Close() // it is open
			}
			awaitCount(t, registry, "0")
		})
	}
}

// hijack serves a handler that takes its connection over, and returns that, still open on both sides.
func hijack(t *testing.T, prepare func(*httptest.Server)) net.Conn {
	t.Helper()
	taken := make(chan net.Conn, 1)
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
		}
		taken <- conn
	}))
	prepare(web)
	web.Start()
	t.Cleanup(web.Close)
	client, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() }) // it is open
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatalf("write: %v", err)
	}
	return <-taken
}

// net/http says no more of a connection that was hijacked, and nothing must be left of it.
func TestConnStateCountsHijackedConnectionsNoMore(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{})
	conn := hijack(t, func(web *httptest.Server) { web.Config.ConnState = registry.ConnCounter().ConnState })
	awaitCount(t, registry, "0")
	_ = conn.Close() // it is open
	awaitCount(t, registry, "0")
}

// A listener's connections are counted whoever has them.
func TestListenerCountsHijackedConnections(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{})
	countBy(t, registry, http.MethodPost, "/connections/reserve")
	conn := hijack(t, func(web *httptest.Server) { web.Listener = registry.ConnCounter().Listener(web.Listener) })
	if got := countBy(t, registry, http.MethodGet, "/connections/count"); got != "1" { // in place of its reservation
		t.Errorf("count: got %s, want 1", got)
	}
	for range 2 {
		_ = conn.Close() // the second time it is closed
	}
	awaitCount(t, registry, "0")
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/server"
)

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config server.Config
		third  string // the address from which a third connection is too many
	}{
		{"of one address", server.Config{MaxConnectionsPerAddress: 2}, "127.0.0.1"},
		{"in all", server.Config{MaxConnections: 2}, "127.0.0.2"},
	}
	for _, tt := range tests {
		for _, plaintext := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, plaintext=%t", tt.name, plaintext), func(t *testing.T) {
				t.Parallel()
				config := tt.config
				config.Plaintext = plaintext
				f := serveTCP(t, config)
				one, two := f.grpcConn(t), f.grpcConn(t)
				connect(t, one, named("a"))
				connect(t, two, named("b"))
				waitEnded(t, "a third connection", dialSilent(t, f.addr, tt.third))
				if err := two.Close(); err != nil {
					t.Fatalf("close: %v", err)
				}
				eventually(t, "a place for another one", func() bool { return askHealth(t, f.grpcConn(t)) == nil })
			})
		}
	}
}

func TestClientsAreBounded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config server.RegistryConfig
	}{
		{"of one address", server.RegistryConfig{MaxClientsPerAddress: 2}},
		{"in all", server.RegistryConfig{MaxClients: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := serveTCP(t, server.Config{Registry: server.NewRegistry(tt.config)})
			conn := f.grpcConn(t)
			leaving := connect(t, conn, named("a"))
			connect(t, conn, named("b"))
			refused := func() (metadata.MD, error) {
				stream, err := clientspb.NewConnectionServiceClient(conn).Connect(t.Context(), named("c"))
				if err != nil {
					t.Fatalf("connect: %v", err)
				}
				_, err = stream.Recv()
				return stream.Trailer(), err
			}
			trailer, err := refused()
			if got, want := status.Code(err), codes.ResourceExhausted; got != want {
				t.Errorf("a third client: got %v, want %v", err, want)
			}
			if got := trailer.Get(contract.ReasonTrailer); !slices.Equal(got, []string{contract.ReasonFull}) {
				t.Errorf("trailer: got %q, want %q", got, contract.ReasonFull)
			}
			if got := f.Registry().Count(); got != 2 {
				t.Errorf("count: got %d, want 2", got)
			}
			leaving.cancel()
			eventually(t, "a place for another one", func() bool {
				_, err := refused()
				return err == nil
			})
		})
	}
}

func TestRequestsInFlightAreBounded(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	f := serveTCP(t, server.Config{MaxRequestsPerAddress: 1, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})})
	client := f.httpClient(t, 1)
	first := make(chan int, 1)
	go func() {
		response, err := client.Get(f.url("/slow"))
		if err != nil {
			first <- 0
			return
		}
		_ = response.Body.Close() // empty
		first <- response.StatusCode
	}()
	<-entered
	got := do(t, client, http.MethodGet, f.url("/slow"), nil)
	if got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
		t.Errorf("a second request: got %s, Retry-After %q, want 503 and one", got.Status, got.Header.Get("Retry-After"))
	}
	// The user's handler takes no place of the probes.
	if got := do(t, client, http.MethodGet, f.url("/connections/count"), nil).StatusCode; got != http.StatusOK {
		t.Errorf("count meanwhile: got status %d, want 200", got)
	}
	close(release)
	if got := <-first; got != http.StatusOK {
		t.Errorf("the first request: got status %d, want 200", got)
	}
}

// A body that was announced and never comes holds the connection for 2 s, whatever the path.
func TestBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"GET /connections/count", "POST /connections/reserve", "GET /health", "PUT /connections/count", "POST /nothing"} {
		for _, announced := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
			t.Run(line+", "+announced, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := serveMemory(t, server.Config{Plaintext: true})
					conn, err := f.dial(t.Context(), "tcp", f.addr)
					if err != nil {
						t.Fatalf("dial: %v", err)
					}
					defer func() { _ = conn.Close() }()
					begin := time.Now()
					if _, err := io.WriteString(conn, line+" HTTP/1.1\r\nHost: x\r\n"+announced+"\r\n\r\n"); err != nil {
						t.Fatalf("write: %v", err)
					}
					response, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						t.Fatalf("read: %v", err)
					}
					_, err = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close() // read to its end
					if err == nil {
						_, err = io.Copy(io.Discard, conn)
					}
					if took := time.Since(begin); err != nil || took != 2*time.Second {
						t.Errorf("end of the connection: after %v with %v, want 2 s and none", took, err)
					}
				})
			})
		}
	}
}

func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			f := serveTCP(t, transport.config)
			long := strings.Repeat("x", 100_000)
			for version := 1; version <= 2; version++ {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url("/connections/count"), nil)
				if err != nil {
					t.Fatalf("new request: %v", err)
				}
				request.Header.Set("X-Long", long)
				response, err := f.httpClient(t, version).Do(request)
				if err == nil {
					_ = response.Body.Close() // of no interest
					if got, want := response.StatusCode, http.StatusRequestHeaderFieldsTooLarge; got != want {
						t.Errorf("HTTP/%d: got status %d, want %d", version, got, want)
					}
				}
			}
			conn := f.grpcConn(t)
			connect(t, conn, named("a"))
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-long", long)
			_, err := clientspb.NewConnectionServiceClient(conn).ConnectionKeepAlive(ctx, &clientspb.ConnectionKeepAlive{ConnectionId: "a"})
			if err == nil {
				t.Error("gRPC: got an answer, want an error")
			}
			if err := askHealth(t, f.grpcConn(t)); err != nil {
				t.Errorf("somebody else's call: %v", err)
			}
		})
	}
}

func TestLimitsOfOneAddressDoNotConcernAnother(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{MaxConnectionsPerAddress: 1})
	if err := askHealth(t, f.grpcConn(t)); err != nil {
		t.Fatalf("call: %v", err)
	}
	waitEnded(t, "a second connection", dialSilent(t, f.addr, "127.0.0.1"))
	other := *f
	other.dial = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext
	if err := askHealth(t, other.grpcConn(t)); err != nil {
		t.Errorf("call from another address: %v", err)
	}
}

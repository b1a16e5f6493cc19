// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/evenkeel-go/evenkeel/server"
)

// countingDialer counts how often a channel connects, and notes that it is cut off.
func countingDialer(f *fixture) (grpc.DialOption, *int) {
	dials := 0
	return grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		dials++ // a channel that is used by one test at a time connects once at a time
		return f.dial(ctx, "tcp", addr)
	}), &dials
}

// An idle channel and one that pings are left alone, with streams and without, for longer than any timeout of ours. The
// pings are as close as they may be; a server with gRPC's default policy cuts the channel off at the third of them.
func TestIdleAndPingingChannelsStayUp(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		ping time.Duration
	}{
		{"idle", 0},
		{"pings each 60 s", time.Minute},
		{"pings each 10 s", 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onFakeClock(t, func(t *testing.T, config server.Config) {
				f := serveMemory(t, config)
				counted, dials := countingDialer(f)
				options := []grpc.DialOption{counted, grpc.WithIdleTimeout(0)}
				if tt.ping > 0 {
					options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: tt.ping, Timeout: 5 * time.Second, PermitWithoutStream: true}))
				}
				conn := f.grpcConn(t, options...)
				conn.Connect()
				for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
					conn.WaitForStateChange(t.Context(), state)
				}
				time.Sleep(31 * time.Minute)
				if got := conn.GetState(); got != connectivity.Ready {
					t.Errorf("state after 31 min without a call: got %v, want %v", got, connectivity.Ready)
				}
				// Beside a stream on which nothing moves.
				watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
				if err != nil {
					t.Fatalf("watch: %v", err)
				}
				if _, err := watch.Recv(); err != nil {
					t.Fatalf("first message: %v", err)
				}
				time.Sleep(31 * time.Minute)
				if err := askHealth(t, conn); err != nil {
					t.Errorf("call after 31 min beside a stream: %v", err)
				}
				if *dials != 1 {
					t.Errorf("connections made: got %d, want 1", *dials)
				}
			})
		})
	}
}

// The same on real sockets, with every timeout of the server's made much shorter than the wait.
func TestIdleChannelOutlivesTheTimeouts(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			config := transport.config
			config.HandshakeTimeout = 200 * time.Millisecond
			f := serveTCP(t, config)
			counted, dials := countingDialer(f)
			conn := f.grpcConn(t, counted)
			if err := askHealth(t, conn); err != nil {
				t.Fatalf("first call: %v", err)
			}
			before := *dials
			// A silent connection made now is cut when its time is over: that is how long the channel has been idle.
			waitEnded(t, "a silent connection", dialSilent(t, f.addr, "127.0.0.1"))
			waitEnded(t, "another silent connection", dialSilent(t, f.addr, "127.0.0.1"))
			if err := askHealth(t, conn); err != nil || *dials != before {
				t.Errorf("call after several timeouts: got %v, %d more connections, want none and none", err, *dials-before)
			}
		})
	}
}

func TestHTTPConnectionEndsWhenIdle(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		config  server.Config
		version int
	}{
		// HTTP/1.1 with TLS cannot be tried here: crypto/tls takes a timeout of this connection in memory for final.
		{"HTTP/2 with TLS, by default", server.Config{}, 2},
		{"HTTP/1.1 in plaintext, when set", server.Config{Plaintext: true, IdleTimeout: 5 * time.Minute}, 1},
		{"HTTP/2 in plaintext, when set", server.Config{Plaintext: true, IdleTimeout: 5 * time.Minute}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := serveMemory(t, tt.config)
				dials := 0
				dial := f.dial
				f.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					dials++
					return dial(ctx, network, addr)
				}
				client := f.httpClient(t, tt.version)
				f.count(t, client)
				time.Sleep(5*time.Minute - time.Second)
				f.count(t, client)
				if dials != 1 {
					t.Errorf("connections before 5 min: got %d, want 1", dials)
				}
				time.Sleep(5*time.Minute + time.Second)
				f.count(t, client)
				if dials != 2 {
					t.Errorf("connections after 5 min without a request: got %d, want a second one", dials)
				}
			})
		})
	}
}

// A peer that has vanished without a word is noticed by the server's own pings.
func TestHalfOpenConnectionIsCut(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		dial := f.dial
		var hole *blackHole
		f.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			hole = &blackHole{Conn: conn}
			return hole, err
		}
		request := named("one")
		request.IsRunningWithDebugger = true // not evicted: only its transport can end it
		connect(t, f.grpcConn(t), request)
		hole.open()
		time.Sleep(35 * time.Second)
		if got := f.Registry().Count(); got != 1 {
			t.Errorf("count before a ping can have failed: got %d, want 1", got)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if got := f.Registry().Count(); got != 0 {
			t.Errorf("count after a ping has failed: got %d, want 0", got)
		}
	})
}

// blackHole is a connection that loses everything once it is open.
type blackHole struct {
	net.Conn
	mu   sync.Mutex
	lost bool
}

func (b *blackHole) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost = true
}

func (b *blackHole) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

func (b *blackHole) Write(p []byte) (int, error) {
	if b.isOpen() {
		return len(p), nil
	}
	return b.Conn.Write(p)
}

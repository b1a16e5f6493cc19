// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/server"
)

func TestDrainSaysWhatHasNotLeft(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatalf("listen: %v", err)
			}
			config := transport.config
			config.DrainLimit = 100 * time.Millisecond
			f := serve(t, config, listener, func(s *server.Server) { addApplication(s) })
			var addr string // of the client
			f.dial = func(ctx context.Context, network, to string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, to)
				if err == nil {
					addr = conn.LocalAddr().String()
				}
				return conn, err
			}
			conn := f.grpcConn(t)
			for range 2 {
				hold(t, conn)
			}
			connect(t, conn, named("one"))
			want := "drain: still open: 2 calls, 1 connection of clients (" + addr + "): the drain limit was reached"
			if err := f.Drain(t.Context()); !errors.Is(err, server.ErrDrainLimit) || err.Error() != want {
				t.Errorf("drain: got %v, want %s", err, want)
			}
		})
	}
}

// The first one to give up cuts off what the other one waits for.
func TestDrainsAtOnceSayTheSame(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f, _ := serveApplication(t, config)
		ended := hold(t, f.grpcConn(t))
		first := drain(t, f)
		pass(time.Second)
		second := drain(t, f)
		for _, done := range []<-chan error{first, second} {
			if err := <-done; !errors.Is(err, server.ErrDrainLimit) {
				t.Errorf("drain: got %v, want %v", err, server.ErrDrainLimit)
			}
		}
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("call: got %v, want Unavailable", err)
		}
	})
}

func TestDrainSaysWhichClientsHaveNotLeft(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		addrs []string
		want  string
	}{
		{"one", []string{"192.0.2.1:1"}, "drain: not left: 1 client (192.0.2.1): enough"},
		{"an IPv6 network", []string{"[2001:db8::7]:1"}, "drain: not left: 1 client (2001:db8::/64): enough"},
		{"without an address", []string{"@"}, "drain: not left: 1 client (no IP address): enough"},
		{"many", slices.Repeat([]string{"192.0.2.1:1"}, 5), "drain: not left: 5 clients (192.0.2.1, 192.0.2.1, 192.0.2.1 and 2 more): enough"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			registry := server.NewRegistry(server.RegistryConfig{})
			defer registry.Close()
			for i, addr := range tt.addrs {
				defer registry.ConnectForTest(strconv.Itoa(i), addr)()
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("enough"))
			if err := registry.Drain(ctx); err == nil || err.Error() != tt.want {
				t.Errorf("drain: got %v, want %s", err, tt.want)
			}
		})
	}
}

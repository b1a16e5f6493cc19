// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
	"github.com/evenkeel-go/evenkeel/server"
)

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestFaultyConfigurations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config server.Config
		want   []string
	}{
		{"TLS in plaintext", server.Config{Plaintext: true, TLS: &tls.Config{}}, []string{"Plaintext and TLS are both set", "TLS has no certificate"}},
		{"no certificate", server.Config{TLS: &tls.Config{}}, []string{"TLS has no certificate"}},
		{"names in plaintext", server.Config{Plaintext: true, DevelopmentNames: []string{"x"}}, []string{"no development certificate"}},
		{"a name that cannot be", server.Config{DevelopmentNames: []string{"a b"}}, []string{"development certificate", `"a b"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := server.New(tt.config)
			if err == nil {
				t.Fatal("got no error, want one")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, want %q in it", err, part)
				}
			}
		})
	}
}

func TestServicesAreHealthyUntilTheRegistryIsClosed(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{Version: "1.2.3", CommitSHA: "abc"})
	f := serveTCP(t, server.Config{Registry: registry})
	conn := f.grpcConn(t)
	check := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, service := range []string{"", "Cratis.Chronicle.Contracts.Clients.ConnectionService", "Cratis.Chronicle.Contracts.Host.Server"} {
			got, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
			if err != nil || got.GetStatus() != want {
				t.Errorf("health of %q: got %v, %v, want %v", service, got.GetStatus(), err, want)
			}
		}
	}
	check(grpc_health_v1.HealthCheckResponse_SERVING)
	version, err := hostpb.NewServerClient(conn).GetVersionInfo(t.Context(), &emptypb.Empty{})
	if err != nil || version.GetVersion() != "1.2.3" || version.GetCommitSha() != "abc" {
		t.Errorf("version: got %v, %v, want 1.2.3, abc", version, err)
	}
	_, err = clientspb.NewConnectionServiceClient(conn).GetDescriptorSet(t.Context(), &emptypb.Empty{})
	if got, want := status.Code(err), codes.Unimplemented; got != want {
		t.Errorf("a method that is not there: got %v (%v), want %v", got, err, want)
	}
	registry.Close()
	check(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
}

func TestRegisterBesideAnotherHealthService(t *testing.T) {
	t.Parallel()
	theirs := health.NewServer()
	theirs.SetServingStatus("theirs", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, theirs)
	// A second registration of the same service would end the program.
	server.NewRegistry(server.RegistryConfig{}).Register(s)
	if got := len(s.GetServiceInfo()); got != 3 {
		t.Errorf("services: got %d, want 3", got)
	}
}

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
			hole = &blackHole{Conn: conn, closed: make(chan struct{})}
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
	mu     sync.Mutex
	lost   bool
	once   sync.Once
	closed chan struct{}
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

func (b *blackHole) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Conn.Close()
}

func TestServeAfterClose(t *testing.T) {
	t.Parallel()
	s, err := server.New(server.Config{})
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	s.Close()
	s.Close()
	listener := bufconn.Listen(1)
	if err := s.Serve(listener); !errors.Is(err, server.ErrClosed) {
		t.Errorf("serve: got %v, want %v", err, server.ErrClosed)
	}
	if _, err := listener.Accept(); err == nil {
		t.Error("listener: got it open, want it closed")
	}
}

func TestServeOnTwoListeners(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{})
	// Once a call has been answered the first listener is known to be the first.
	if err := askHealth(t, f.grpcConn(t)); err != nil {
		t.Fatalf("call on the first listener: %v", err)
	}
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- f.Serve(second) }()
	other := *f
	other.addr = second.Addr().String()
	if err := askHealth(t, other.grpcConn(t)); err != nil {
		t.Errorf("call on the second listener: %v", err)
	}
	if err := askHealth(t, f.grpcConn(t)); err != nil {
		t.Errorf("call on the first listener beside the second: %v", err)
	}
	if got := f.Addr().String(); got != f.addr {
		t.Errorf("address: got %s, want the first listener's, %s", got, f.addr)
	}
	f.Close()
	if err := <-done; err != nil {
		t.Errorf("serve on the second listener: %v", err)
	}
}

// shortOf is an error as accept has it when file descriptors run out.
type shortOf struct{}

func (shortOf) Error() string   { return "too many open files" }
func (shortOf) Temporary() bool { return true }

// failing is a listener whose first accepts fail.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, err
	}
	return f.Listener.Accept()
}

func TestAcceptErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := bufconn.Listen(1 << 16)
		f := serve(t, server.Config{Plaintext: true}, &failing{memory, []error{shortOf{}, shortOf{}, shortOf{}}})
		f.addr = "x"
		f.dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return memory.DialContext(ctx) }
		begin := time.Now()
		if got := f.count(t, f.httpClient(t, 1)); got != 0 {
			t.Errorf("count: got %d, want 0", got)
		}
		if got, want := time.Since(begin), (5+10+20)*time.Millisecond; got != want {
			t.Errorf("served after: got %v, want %v, three pauses", got, want)
		}
	})
	s, err := server.New(server.Config{Plaintext: true})
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	defer s.Close()
	broken := errors.New("broken")
	if err := s.Serve(&failing{bufconn.Listen(1), []error{broken}}); !errors.Is(err, broken) {
		t.Errorf("serve: got %v, want the listener's error", err)
	}
}

// Close is prompt whatever the connections are doing: silent before TLS, silent after it, streaming, idle.
func TestCloseIsPrompt(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			f := serveTCP(t, transport.config)
			var silent []<-chan struct{}
			for range 50 {
				silent = append(silent, dialSilent(t, f.addr, "127.0.0.1"))
			}
			if f.roots != nil {
				for range 10 {
					conn, err := tls.Dial("tcp", f.addr, &tls.Config{RootCAs: f.roots, ServerName: "localhost", NextProtos: []string{"h2"}})
					if err != nil {
						t.Fatalf("dial: %v", err)
					}
					defer func() { _ = conn.Close() }()
				}
			}
			conn := f.grpcConn(t)
			sessions := make([]*session, 50)
			for i := range sessions {
				sessions[i] = connect(t, conn, named(fmt.Sprint(i)))
			}
			f.count(t, f.httpClient(t, 1))
			begin := time.Now()
			f.Close()
			// The promise is 100 ms; the rest is for machines that are busy with other tests. gRPC alone takes seconds.
			if took := time.Since(begin); took > 500*time.Millisecond {
				t.Errorf("close: took %v, want at most 100 ms", took)
			}
			for _, ended := range silent {
				waitEnded(t, "silent connection", ended)
			}
			for _, s := range sessions {
				if got := status.Code(s.wait()); got != codes.Unavailable {
					t.Errorf("stream: got %v, want %v", s.err, codes.Unavailable)
				}
			}
			if got := f.Registry().Count(); got != 0 {
				t.Errorf("count: got %d, want 0: the handlers have ended", got)
			}
		})
	}
}

// A handler of the user's that ignores its context is not waited for.
func TestCloseDoesNotWaitForAStubbornHandler(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	var log syncBuffer
	f := serveTCP(t, server.Config{Logger: log.logger(), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	})})
	client := f.httpClient(t, 1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		response, err := client.Get(f.url("/stubborn"))
		if err == nil {
			_ = response.Body.Close()
			t.Error("request: got an answer, want the connection cut")
		}
	}()
	<-entered
	begin := time.Now()
	f.Close()
	if took := time.Since(begin); took > 500*time.Millisecond {
		t.Errorf("close: took %v, want at most 100 ms", took)
	}
	<-gone
	close(release)
	if got := log.String(); !strings.Contains(got, "handler was still running") {
		t.Errorf("log: got %q, want a warning about the handler", got)
	}
}

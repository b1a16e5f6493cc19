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
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
	"github.com/evenkeel-go/evenkeel/internal/memnet"
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

func TestServeAfterClose(t *testing.T) {
	t.Parallel()
	s, err := server.New(server.Config{})
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	s.Close()
	s.Close()
	listener := memnet.Listen()
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
		memory := memnet.Listen()
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
	if err := s.Serve(&failing{memnet.Listen(), []error{broken}}); !errors.Is(err, broken) {
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

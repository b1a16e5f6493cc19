// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
	"github.com/evenkeel-go/evenkeel/server"
)

const drainText = "connection draining: move to another server"

// application is a service of the user's: Hold is a stream that sends one message and ends when release is closed or its
// client has gone.
type application struct {
	release chan struct{}
}

func (a *application) hold(stream grpc.ServerStream) error {
	if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
		return err
	}
	select {
	case <-a.release:
		return nil
	case <-stream.Context().Done():
		return status.FromContextError(stream.Context().Err()).Err()
	}
}

// addApplication registers an application on a server that does not serve yet, which serve calls back for.
func addApplication(s *server.Server) *application {
	a := &application{release: make(chan struct{})}
	s.GRPC().RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Application", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "Hold", ServerStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return a.hold(stream) },
		}},
	}, a)
	return a
}

// hold opens a stream of the application and waits until it runs. The channel gets how it ended.
func hold(t *testing.T, conn *grpc.ClientConn) <-chan error {
	t.Helper()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/test.Application/Hold")
	if err == nil {
		err = stream.SendMsg(&emptypb.Empty{})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(&emptypb.Empty{})
	}
	if err != nil {
		t.Fatalf("open a stream of the application: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stream.RecvMsg(&emptypb.Empty{}) }()
	return ended
}

// drain drains in the background; the channel gets its error.
func drain(t *testing.T, f *fixture) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f.Drain(t.Context()) }()
	return done
}

func TestDrainEndsStreamsEvenly(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		period time.Duration
		want   []time.Duration
	}{
		{"one stream is told at once", 0, []time.Duration{0}},
		{"five in the default of 5 s", 0, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}},
		{"three in 900 ms", 900 * time.Millisecond, []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onFakeClock(t, func(t *testing.T, config server.Config) {
				config.Registry = server.NewRegistry(server.RegistryConfig{DrainPeriod: tt.period})
				f := serveMemory(t, config)
				var ends []time.Duration
				ended := make(chan time.Duration, len(tt.want))
				var sessions []*session
				for i := range tt.want {
					request := named(strconv.Itoa(i))
					request.IsRunningWithDebugger = true // nobody answers here
					sessions = append(sessions, connect(t, f.grpcConn(t), request))
				}
				begin := time.Now()
				for _, s := range sessions {
					go func() {
						_ = s.wait() // looked at below
						ended <- time.Since(begin)
					}()
				}
				if err := <-drain(t, f); err != nil {
					t.Errorf("drain: %v", err)
				}
				for range tt.want {
					ends = append(ends, <-ended)
				}
				slices.Sort(ends)
				if !slices.Equal(ends, tt.want) {
					t.Errorf("streams ended after: got %v, want %v", ends, tt.want)
				}
				for _, s := range sessions {
					checkEnd(t, s, contract.ReasonDraining, drainText)
				}
			})
		})
	}
}

func TestDrainingServerRefusesWhatIsNewAndServesTheRest(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		conn, client := f.grpcConn(t), f.httpClient(t, 2)
		for _, id := range []string{"a", "b"} {
			connect(t, conn, named(id))
		}
		f.reserve(t, client)
		done := drain(t, f)
		synctest.Wait() // one of the two was told, the other one is in 2.5 s

		for _, request := range []struct{ method, path, body string }{
			{http.MethodGet, "/connections/count", "Draining"},
			{http.MethodHead, "/connections/count", ""},
			{http.MethodPost, "/connections/reserve", "Draining"},
			{http.MethodGet, "/health", "Draining"},
			{http.MethodHead, "/health", ""},
		} {
			got := do(t, client, request.method, f.url(request.path), nil)
			if got.StatusCode != http.StatusServiceUnavailable || got.body != request.body {
				t.Errorf("%s %s: got %s with %q, want 503 with %q", request.method, request.path, got.Status, got.body, request.body)
			}
		}
		health, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if got, want := health.GetStatus(), grpc_health_v1.HealthCheckResponse_NOT_SERVING; err != nil || got != want {
			t.Errorf("gRPC health: got %v, %v, want %v", got, err, want)
		}
		begin := time.Now()
		checkRefused(t, f.grpcConn(t), "new", contract.ReasonDraining, drainText)
		if took := time.Since(begin); took != 0 {
			t.Errorf("a new client was refused after %v, want at once", took)
		}
		list, err := clientspb.NewConnectionServiceClient(conn).GetConnectedClients(t.Context(), &emptypb.Empty{})
		if err != nil || len(list.GetItems()) != 1 {
			t.Errorf("other calls: got %v, %v, want an answer with one client", list, err)
		}
		if err := <-done; err != nil {
			t.Errorf("drain: %v", err)
		}
	})
}

// checkRefused fails unless a Connect ends with the status UNAVAILABLE, that text and that reason.
func checkRefused(t *testing.T, conn *grpc.ClientConn, id, reason, text string) {
	t.Helper()
	stream, err := clientspb.NewConnectionServiceClient(conn).Connect(t.Context(), named(id))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	_, err = stream.Recv()
	if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != text {
		t.Errorf("connect: got %v, want Unavailable, %s", err, text)
	}
	if got := stream.Trailer().Get(contract.ReasonTrailer); !slices.Equal(got, []string{reason}) {
		t.Errorf("trailer: got %q, want %q", got, reason)
	}
}

func TestDrainWaitsForCallsOfTheApplication(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f, app := serveApplication(t, config)
		conn := f.grpcConn(t)
		ended := hold(t, conn)
		// These are open for as long as their clients like, and are no reason to wait.
		watch, err := grpc_health_v1.NewHealthClient(f.grpcConn(t)).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		done := drain(t, f)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("drain: got %v while a call was running, want it to wait", err)
		default:
		}
		if got := conn.GetState(); got != connectivity.Ready {
			t.Errorf("channel while the server drains: got %v, want %v: GOAWAY comes at the end", got, connectivity.Ready)
		}
		again := hold(t, conn) // new calls are served, too
		begin := time.Now()
		close(app.release)
		for _, ended := range []<-chan error{ended, again} {
			if err := <-ended; err.Error() != "EOF" {
				t.Errorf("call: got %v, want its proper end", err)
			}
		}
		if err := <-done; err != nil {
			t.Errorf("drain: %v", err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("drain after the last call: took %v, want at most a second for what a watch holds up", took)
		}
	})
}

// serveApplication serves in memory, with an application.
func serveApplication(t *testing.T, config server.Config) (*fixture, *application) {
	t.Helper()
	var app *application
	f := serveMemory(t, config, func(s *server.Server) { app = addApplication(s) })
	return f, app
}

func TestDrainEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f, _ := serveApplication(t, config)
		ended := hold(t, f.grpcConn(t))
		begin := time.Now()
		err := f.Drain(t.Context())
		if !errors.Is(err, server.ErrDrainLimit) {
			t.Errorf("drain: got %v, want %v", err, server.ErrDrainLimit)
		}
		if took := time.Since(begin); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("drain: took %v, want 30 s and up to a second for the stop", took)
		}
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("call that was still running: got %v, want Unavailable", err)
		}
	})
}

func TestDrainStopsAtOnceWithItsContext(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f, _ := serveApplication(t, config)
		conn := f.grpcConn(t)
		ended := hold(t, conn)
		var sessions []*session
		for i := range 10 {
			sessions = append(sessions, connect(t, conn, named(strconv.Itoa(i))))
		}
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(enough) })
		begin := time.Now()
		if err := f.Drain(ctx); !errors.Is(err, enough) {
			t.Errorf("drain: got %v, want the cause", err)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("drain: took %v, want 1 s, when its context was done", took)
		}
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("call: got %v, want Unavailable", err)
		}
		for _, s := range sessions {
			if got := status.Code(s.wait()); got != codes.Unavailable {
				t.Errorf("stream: got %v, want Unavailable", s.err)
			}
		}
	})
}

// The client has been told, and its stream is over; its connection is still good for its calls.
func TestDrainWaitsForConnectionsThatCarriedSessions(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			f := serveTCP(t, transport.config)
			conn, bystander := f.grpcConn(t), f.grpcConn(t)
			for _, c := range []*grpc.ClientConn{conn, bystander} {
				if err := askHealth(t, c); err != nil {
					t.Fatalf("call: %v", err)
				}
			}
			s := connect(t, conn, named("one"))
			done := drain(t, f)
			checkEnd(t, s, contract.ReasonDraining, drainText)
			// Nobody is registered now. Were the server to stop, this would not be answered each time.
			for range 100 {
				if _, err := hostpb.NewServerClient(conn).GetVersionInfo(t.Context(), &emptypb.Empty{}); err != nil {
					t.Fatalf("call on the connection of a session that was ended: %v", err)
				}
			}
			select {
			case err := <-done:
				t.Fatalf("drain: got %v while the connection was open, want it to wait", err)
			default:
			}
			if err := conn.Close(); err != nil {
				t.Fatalf("close the connection: %v", err)
			}
			if err := <-done; err != nil {
				t.Errorf("drain: %v", err)
			}
		})
	}
}

func TestDrainTwiceAndAfterClose(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{})
	for range 2 {
		if err := registry.Drain(t.Context()); err != nil {
			t.Errorf("drain of nobody: %v", err)
		}
	}
	s, err := server.New(server.Config{Plaintext: true})
	if err != nil {
		t.Fatalf("new server: %v", err)
	}
	s.Close()
	if err := s.Drain(t.Context()); err != nil {
		t.Errorf("drain of a closed server: %v", err)
	}
}

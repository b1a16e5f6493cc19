// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/memnet"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} { // that of the machine is no affair of the tests
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// memoryServer is a server in the test's memory, so that a whole session runs in a synctest bubble. Its hooks are how
// it misbehaves; the servers of package evenkeeltest behave.
type memoryServer struct {
	clientspb.UnimplementedConnectionServiceServer
	hostpb.UnimplementedServerServer

	name     string
	interval time.Duration // between keep-alives; 1 s
	listener *memnet.Listener
	server   *grpc.Server

	// pulse returns what the Connect stream does with its n-th keep-alive, counted from 0: send an id, wait for a
	// channel, or end.
	pulse atomic.Pointer[func(n int, id string) (string, error)]
	// answer is what ConnectionKeepAlive does.
	answer atomic.Pointer[func(ctx context.Context) error]
	// compat is what CheckCompatibility does; without it every client is compatible. schema is what GetDescriptorSet does.
	compat atomic.Pointer[func(ctx context.Context, request *clientspb.CompatibilityRequest) (*clientspb.CompatibilityResponse, error)]
	schema atomic.Pointer[func(ctx context.Context) (string, error)]
	// info is what GetVersionInfo does.
	info atomic.Pointer[func(ctx context.Context) error]

	connects atomic.Int64

	mu    sync.Mutex
	conns []net.Conn
}

// ownStream is the id of streams that are a program's, not a session's: the hooks leave them alone.
const ownStream = "a stream of the program"

// errEndOK ends a Connect stream without an error, errDrain as a server does that drains, and errShed as one with too many.
var (
	errEndOK = errors.New("end with OK")
	errDrain = errors.New("drain")
	errShed  = errors.New("shed")
)

func (s *memoryServer) Connect(
	r *clientspb.ConnectRequest, stream grpc.ServerStreamingServer[clientspb.ConnectionKeepAlive],
) error {
	if r.GetConnectionId() != ownStream {
		s.connects.Add(1)
	}
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	for n := 0; ; n++ {
		id := r.GetConnectionId()
		if pulse := s.pulse.Load(); pulse != nil && id != ownStream {
			var err error
			if id, err = (*pulse)(n, id); errors.Is(err, errEndOK) {
				return nil
			} else if errors.Is(err, errDrain) {
				stream.SetTrailer(metadata.Pairs("evenkeel-reason", "draining"))
				return status.Error(codes.Unavailable, "connection draining: move to another server")
			} else if errors.Is(err, errShed) {
				stream.SetTrailer(metadata.Pairs("evenkeel-reason", "shed"))
				return status.Error(codes.Unavailable, "connection shed: move to another server")
			} else if err != nil {
				return err
			}
		}
		if id != "" {
			if err := stream.Send(&clientspb.ConnectionKeepAlive{ConnectionId: id}); err != nil {
				return err
			}
		}
		select {
		case <-ticker.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *memoryServer) ConnectionKeepAlive(
	ctx context.Context, _ *clientspb.ConnectionKeepAlive,
) (*emptypb.Empty, error) {
	if answer := s.answer.Load(); answer != nil {
		if err := (*answer)(ctx); err != nil {
			return nil, err
		}
	}
	return &emptypb.Empty{}, nil
}

func (s *memoryServer) CheckCompatibility(
	ctx context.Context, request *clientspb.CompatibilityRequest,
) (*clientspb.CompatibilityResponse, error) {
	if compat := s.compat.Load(); compat != nil {
		return (*compat)(ctx, request)
	}
	return &clientspb.CompatibilityResponse{IsCompatible: true}, nil
}

func (s *memoryServer) GetDescriptorSet(ctx context.Context, request *emptypb.Empty) (*clientspb.DescriptorSetResponse, error) {
	schema := s.schema.Load()
	if schema == nil {
		return s.UnimplementedConnectionServiceServer.GetDescriptorSet(ctx, request)
	}
	text, err := (*schema)(ctx)
	return &clientspb.DescriptorSetResponse{SchemaDefinition: text}, err
}

func (s *memoryServer) GetVersionInfo(ctx context.Context, _ *emptypb.Empty) (*hostpb.ServerVersionInfo, error) {
	if info := s.info.Load(); info != nil {
		if err := (*info)(ctx); err != nil {
			return nil, err
		}
	}
	return &hostpb.ServerVersionInfo{Version: s.name}, nil
}

// cutOff breaks every connection of the server, without a word.
func (s *memoryServer) cutOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close() // a test's pipe
	}
	s.conns = nil
}

// cutOffOne breaks the n-th connection.
func (s *memoryServer) cutOffOne(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.conns[n].Close() // a test's pipe
}

// memoryCluster is servers by the address under which a client dials them.
type memoryCluster struct {
	servers map[string]*memoryServer
	// refuse fails dials to an address.
	refuse sync.Map
	dials  atomic.Int64
}

func newMemoryCluster(t *testing.T, names ...string) *memoryCluster {
	t.Helper()
	c := &memoryCluster{servers: make(map[string]*memoryServer)}
	for _, name := range names {
		s := &memoryServer{
			name: name, interval: time.Second, listener: memnet.Listen(), server: grpc.NewServer(
				grpc.MaxConcurrentStreams(100),
				grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
			),
		}
		clientspb.RegisterConnectionServiceServer(s.server, s)
		hostpb.RegisterServerServer(s.server, s)
		var serving sync.WaitGroup
		serving.Go(func() {
			if err := s.server.Serve(s.listener); err != nil {
				t.Errorf("serve %s: %v", name, err)
			}
		})
		t.Cleanup(func() { s.server.Stop(); serving.Wait() })
		c.servers[name+":35000"] = s
	}
	return c
}

var errRefused = errors.New("connection refused")

func (c *memoryCluster) dial(ctx context.Context, e discover.Endpoint) (net.Conn, error) {
	c.dials.Add(1)
	s, ok := c.servers[e.Addr()]
	if _, refused := c.refuse.Load(e.Host); refused || !ok {
		return nil, errRefused
	}
	conn, err := s.listener.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.conns = append(s.conns, conn)
	s.mu.Unlock()
	return conn, nil
}

// recorder keeps events and lets a test wait for one.
type recorder struct {
	mu     sync.Mutex
	events []evenkeel.Event
	more   chan struct{}
}

func newRecorder() *recorder { return &recorder{more: make(chan struct{})} }

func (r *recorder) record(e evenkeel.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	close(r.more)
	r.more = make(chan struct{})
}

// await returns the n-th event of a kind, counted from 1.
func (r *recorder) await(t *testing.T, kind evenkeel.EventKind, n int) evenkeel.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // of the bubble's time
	defer cancel()
	for {
		r.mu.Lock()
		seen, more := 0, r.more
		for _, e := range r.events {
			if e.Kind == kind {
				if seen++; seen == n {
					r.mu.Unlock()
					return e
				}
			}
		}
		r.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("event %d of kind %q did not come; got %s", n, kind, r)
		}
	}
}

// kinds are the kinds of all events so far, in order.
func (r *recorder) kinds() []evenkeel.EventKind {
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds := make([]evenkeel.EventKind, 0, len(r.events))
	for _, e := range r.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d events, the first of which are %v", len(r.events), r.events[:min(20, len(r.events))])
}

// connect makes a Conn to the cluster and closes it with the test.
func (c *memoryCluster) connect(t *testing.T, s string, opts ...evenkeel.Option) (*evenkeel.Conn, *recorder) {
	t.Helper()
	r := newRecorder()
	opts = append([]evenkeel.Option{
		evenkeel.WithDialerForTest(c.dial), evenkeel.WithPlaintext(), evenkeel.WithEvents(r.record),
	}, opts...)
	conn, err := evenkeel.New(s, opts...)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return conn, r
}

func version(ctx context.Context, conn grpc.ClientConnInterface, opts ...grpc.CallOption) (string, error) {
	info, err := hostpb.NewServerClient(conn).GetVersionInfo(ctx, &emptypb.Empty{}, opts...)
	return info.GetVersion(), err
}

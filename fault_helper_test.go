// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// slack is what a step may take that is to be instant: the fault tests share a machine with others.
const slack = slowness * 1500 * time.Millisecond

// lives bounds how many fault tests run at a time, so that they are on time.
var lives = make(chan struct{}, 32/slowness)

// live waits for a turn, which ends with the test.
func live(t *testing.T) {
	t.Helper()
	lives <- struct{}{}
	t.Cleanup(func() { <-lives })
}

// together runs subtests at the same time, more of them than t.Parallel lets. Its zero value is ready; wait must be called.
type together struct{ running sync.WaitGroup }

// group runs a subtest that has subtests of its own, or takes its turn itself.
func (g *together) group(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	g.running.Go(func() { t.Run(name, test) })
}

// run runs a subtest when it is its turn.
func (g *together) run(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	g.group(t, name, func(t *testing.T) {
		live(t)
		test(t)
	})
}

func (g *together) wait() { g.running.Wait() }

// The calls of a program: they go on until their context ends.
const (
	waitMethod  = "/fault.test.Program/Wait"
	watchMethod = "/fault.test.Program/Watch"
)

// program is a service with a unary call and a stream that last.
type program struct{ waits atomic.Int64 }

func (p *program) register(s *grpc.Server) {
	wait := func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		p.waits.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	watch := func(_ any, stream grpc.ServerStream) error {
		if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "fault.test.Program", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Wait", Handler: wait}},
		Streams: []grpc.StreamDesc{{StreamName: "Watch", Handler: watch, ServerStreams: true, ClientStreams: true}},
	}, nil)
}

// watch begins the stream of the program and returns when it runs.
func watch(ctx context.Context, t *testing.T, conn grpc.ClientConnInterface) grpc.ClientStream {
	t.Helper()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, watchMethod)
	if err != nil {
		t.Fatalf("begin a stream: %v", err)
	}
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
		t.Fatalf("first message of a stream: %v", err)
	}
	return stream
}

// soon is await for real sockets, where an event that does not come must not hold the test up for an hour.
func (r *recorder) soon(t *testing.T, kind evenkeel.EventKind, n int) evenkeel.Event {
	t.Helper()
	give := time.NewTimer(limit)
	defer give.Stop()
	for {
		r.mu.Lock()
		seen, more := 0, r.more
		for _, e := range r.events {
			if e.Kind != kind {
				continue
			}
			if seen++; seen == n {
				r.mu.Unlock()
				return e
			}
		}
		r.mu.Unlock()
		select {
		case <-more:
		case <-give.C:
			t.Fatalf("event %d of kind %q did not come; got %s", n, kind, r)
		}
	}
}

// all returns the events of a kind so far.
func (r *recorder) all(kind evenkeel.EventKind) []evenkeel.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []evenkeel.Event
	for _, e := range r.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// meet dials a cluster and records what happens.
func meet(t *testing.T, c *evenkeeltest.Cluster, connection string, opts ...evenkeel.Option) (*evenkeel.Conn, *recorder) {
	t.Helper()
	r := newRecorder()
	opts = append([]evenkeel.Option{evenkeel.WithTLS(c.TLS()), evenkeel.WithEvents(r.record)}, opts...)
	return dial(t, connection, opts...), r
}

// host returns the server that an endpoint is, found by its port: the addresses are all the same.
func host(t *testing.T, c *evenkeeltest.Cluster, e discover.Endpoint) *evenkeeltest.Server {
	t.Helper()
	for _, s := range c.Servers {
		if s.Endpoint().Port == e.Port {
			return s
		}
	}
	t.Fatalf("no server is %s", e.Addr())
	return nil
}

// inOrder picks the first candidate.
type inOrder struct{}

func (inOrder) Select(_ context.Context, candidates []discover.Endpoint) (balance.Selection, error) {
	return balance.Selection{Endpoint: candidates[0]}, nil
}

// pass waits for a span of real time.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// until looks until something holds that no event tells of.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// steadily is how long a session must have been up for its loss to be followed by an attempt at once.
const steadily = 2100 * time.Millisecond

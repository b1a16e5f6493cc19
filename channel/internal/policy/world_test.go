// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
	"github.com/evenkeel-go/evenkeel/internal/memnet"
)

const (
	whoMethod  = "/test.Echo/Who"
	holdMethod = "/test.Echo/Hold"
)

var errRefused = errors.New("connection refused by the test")

// world is a network of servers: in memory, so that it fits into the bubble of testing/synctest, or on loopback.
type world struct {
	tb       testing.TB
	loopback bool
	plain    bool // servers have no health service

	mu    sync.Mutex
	nodes map[string]*node
	dials map[string]int
	hang  map[string]bool // dialling does not end
	order []string        // of dials
}

func newWorld(tb testing.TB) *world {
	return &world{
		tb: tb, nodes: make(map[string]*node), dials: make(map[string]int), hang: make(map[string]bool),
	}
}

// newLoopback makes a world of real sockets.
func newLoopback(tb testing.TB) *world {
	w := newWorld(tb)
	w.loopback = true
	return w
}

// node is one server.
type node struct {
	world    *world
	addr     string
	memory   *memnet.Listener // nil on loopback
	server   *grpc.Server
	health   *health.Server
	calls    atomic.Int64
	accepted atomic.Int64 // connections
	open     atomic.Int64 // connections
	answer   atomic.Pointer[error]
}

// start starts a server; on loopback its address is another than the one given.
func (w *world) start(addr string, opts ...grpc.ServerOption) *node {
	w.tb.Helper()
	n := &node{world: w, addr: addr, health: health.NewServer()}
	n.memory = memnet.Listen()
	var listener net.Listener = n.memory
	if w.loopback {
		if addr == "" {
			addr = "127.0.0.1:0"
		}
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr); err != nil {
			w.tb.Fatal(err)
		}
		n.addr = listener.Addr().String()
	}
	n.server = grpc.NewServer(opts...)
	n.server.RegisterService(echoService(), n)
	if !w.plain {
		healthpb.RegisterHealthServer(n.server, n.health)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = n.server.Serve(&countingListener{Listener: listener, node: n})
	}()
	w.mu.Lock()
	w.nodes[n.addr] = n
	w.mu.Unlock()
	w.tb.Cleanup(func() {
		n.stop()
		<-served
	})
	return n
}

// startAll starts servers in memory by their names.
func (w *world) startAll(names ...string) []*node {
	nodes := make([]*node, len(names))
	for i, name := range names {
		nodes[i] = w.start(name)
	}
	return nodes
}

// stop ends the server with its connections.
func (n *node) stop() {
	n.world.mu.Lock()
	if n.world.nodes[n.addr] == n {
		delete(n.world.nodes, n.addr)
	}
	n.world.mu.Unlock()
	n.server.Stop()
}

type countingListener struct {
	net.Listener

	node *node
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.node.accepted.Add(1)
	l.node.open.Add(1)
	return &countedConn{Conn: conn, node: l.node}, nil
}

type countedConn struct {
	net.Conn

	node *node
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.node.open.Add(-1) })
	return c.Conn.Close()
}

// dial is the network in memory.
func (w *world) dial(ctx context.Context, addr string) (net.Conn, error) {
	w.mu.Lock()
	w.dials[addr]++
	w.order = append(w.order, addr)
	n, hang := w.nodes[addr], w.hang[addr]
	w.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if n == nil {
		return nil, fmt.Errorf("dial %s: %w", addr, errRefused)
	}
	return n.memory.DialContext(ctx)
}

func (w *world) dialled(addr string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials[addr]
}

func (w *world) setHang(addr string, hang bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hang[addr] = hang
}

// client is a channel with a resolver in the test's hand.
type client struct {
	*grpc.ClientConn

	tb       testing.TB
	resolver *manual.Resolver
	hints    atomic.Int64 // calls of ResolveNow
	hooks    *policy.Hooks
}

// client makes a client of a policy with its config in JSON.
func (w *world) client(name, config string, opts ...grpc.DialOption) *client {
	w.tb.Helper()
	return w.clientWith(fmt.Sprintf(`{"loadBalancingConfig":[{%q:%s}]}`, name, config), nil, opts...)
}

func (w *world) clientWith(serviceConfig string, hooks *policy.Hooks, opts ...grpc.DialOption) *client {
	w.tb.Helper()
	c := &client{tb: w.tb, resolver: manual.NewBuilderWithScheme("test"), hooks: hooks}
	c.resolver.ResolveNowCallback = func(resolver.ResolveNowOptions) { c.hints.Add(1) }
	all := []grpc.DialOption{
		grpc.WithResolvers(c.resolver),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithIdleTimeout(0),
	}
	if !w.loopback {
		all = append(all, grpc.WithContextDialer(w.dial))
	}
	conn, err := grpc.NewClient("test:///fleet", append(all, opts...)...)
	if err != nil {
		w.tb.Fatal(err)
	}
	c.ClientConn = conn
	w.tb.Cleanup(func() { _ = conn.Close() })
	conn.Connect()
	return c
}

// update has the resolver name endpoints of one address each.
func (c *client) update(addrs ...string) {
	endpoints := make([]resolver.Endpoint, len(addrs))
	for i, addr := range addrs {
		endpoints[i] = at(addr)
	}
	c.updateEndpoints(endpoints...)
}

func (c *client) updateEndpoints(endpoints ...resolver.Endpoint) {
	state := resolver.State{Endpoints: endpoints}
	if c.hooks != nil {
		state = policy.WithHooks(state, c.hooks)
	}
	c.resolver.UpdateState(state)
}

// who makes a call and returns the address of the server that answered.
func (c *client) who(opts ...grpc.CallOption) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var answer wrapperspb.StringValue
	err := c.Invoke(ctx, whoMethod, &emptypb.Empty{}, &answer, opts...)
	return answer.GetValue(), err
}

// tally makes n calls, none of which may fail, and counts them by server.
func (c *client) tally(n int) map[string]int {
	c.tb.Helper()
	counts := make(map[string]int)
	for range n {
		addr, err := c.who()
		if err != nil {
			c.tb.Fatalf("call failed: %v", err)
		}
		counts[addr]++
	}
	return counts
}

// hold opens a stream, which lasts until its context ends, and returns it with the address of its server.
func (c *client) hold(ctx context.Context) (grpc.ClientStream, string) {
	c.tb.Helper()
	stream, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, holdMethod)
	if err != nil {
		c.tb.Fatal(err)
	}
	if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
		c.tb.Fatal(err)
	}
	var first wrapperspb.StringValue
	if err := stream.RecvMsg(&first); err != nil {
		c.tb.Fatal(err)
	}
	return stream, first.GetValue()
}

// echoService answers with the server's address.
func echoService() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Who", Handler: func(
			srv any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
		) (any, error) {
			n := srv.(*node)
			n.calls.Add(1)
			if err := n.answer.Load(); err != nil {
				return nil, *err
			}
			return wrapperspb.String(n.addr), decode(&emptypb.Empty{})
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Hold", ServerStreams: true, Handler: func(
			srv any, stream grpc.ServerStream,
		) error {
			if err := stream.SendMsg(wrapperspb.String(srv.(*node).addr)); err != nil {
				return err
			}
			<-stream.Context().Done()
			return nil
		}}},
	}
}

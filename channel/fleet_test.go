// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// fleetName is the name of a fleet in its DNS.
const fleetName = "fleet.test"

// fleet is a name server and servers that listen on one port of addresses of their own.
type fleet struct {
	*testing.T

	dns    *evenkeeltest.DNS
	net    byte // the servers listen at 127.net.0.x
	port   uint16
	creds  func() credentials.TransportCredentials // nil means plaintext
	server map[int]*server
}

// newFleet starts servers 1 to n, and puts all of them into DNS.
func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	f := &fleet{T: t, dns: evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{}), server: make(map[int]*server)}
	f.net = byte(1 + rand.IntN(250)) //nolint:gosec // a byte
	listener, err := net.Listen("tcp", netip.AddrPortFrom(f.addr(1), 0).String())
	if err != nil {
		t.Skipf("this machine has one loopback address only: %v", err)
	}
	f.port = uint16(listener.Addr().(*net.TCPAddr).Port) //nolint:gosec,forcetypeassert // of a listener
	f.serve(1, listener)
	for i := 2; i <= n; i++ {
		f.start(i)
	}
	f.set(numbers(1, n)...)
	return f
}

// numbers returns from, from+1 up to to.
func numbers(from, to int) []int {
	var all []int
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}

func (f *fleet) addr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, f.net, byte(i >> 8), byte(i)}) //nolint:gosec // small
}

// at returns the address of a server as the server itself tells it.
func (f *fleet) at(i int) string { return netip.AddrPortFrom(f.addr(i), f.port).String() }

// target is what a channel to the fleet is dialled with.
func (f *fleet) target() string {
	return fmt.Sprintf("dns://%s/%s:%d", f.dns.Addr(), fleetName, f.port)
}

// set puts servers into DNS, and nothing else.
func (f *fleet) set(servers ...int) {
	addrs := make([]netip.Addr, len(servers))
	for i, s := range servers {
		addrs[i] = f.addr(s)
	}
	f.dns.SetAddrs(fleetName, addrs...)
}

// start starts a server that was not running.
func (f *fleet) start(i int) *server {
	f.Helper()
	listener, err := net.Listen("tcp", f.at(i))
	if err != nil {
		f.Fatal(err)
	}
	return f.serve(i, listener)
}

// stop ends a server at once.
func (f *fleet) stop(servers ...int) {
	for _, i := range servers {
		f.server[i].grpc.Stop()
	}
}

// server answers every call with where it listens. A call of a method that ends in "Stream" is answered once and lasts
// until the client ends it.
type server struct {
	name   string
	grpc   *grpc.Server
	health *health.Server
	calls  atomic.Int64

	authority atomic.Pointer[string] // of the last call
}

func (f *fleet) serve(i int, listener net.Listener) *server {
	options := []grpc.ServerOption{}
	if f.creds != nil {
		options = append(options, grpc.Creds(f.creds()))
	}
	s := newServer(listener.Addr().String(), options...)
	f.server[i] = s
	f.run(s, listener)
	return s
}

func (f *fleet) run(s *server, listener net.Listener) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.grpc.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it began
			f.Errorf("serve: %v", err)
		}
	}()
	f.Cleanup(func() {
		s.grpc.Stop()
		<-ended
	})
}

func newServer(name string, options ...grpc.ServerOption) *server {
	s := &server{name: name, health: health.NewServer()}
	s.grpc = grpc.NewServer(append(options, grpc.UnknownServiceHandler(s.handle))...)
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	return s
}

func (s *server) handle(_ any, stream grpc.ServerStream) error {
	s.calls.Add(1)
	if incoming, ok := metadata.FromIncomingContext(stream.Context()); ok {
		s.authority.Store(&incoming.Get(":authority")[0])
	}
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
		return err
	}
	if err := stream.SendMsg(wrapperspb.String(s.name)); err != nil {
		return err
	}
	method, _ := grpc.Method(stream.Context())
	if method == streamMethod {
		<-stream.Context().Done()
	}
	return nil
}

const (
	callMethod   = "/test.Who/Call"
	streamMethod = "/test.Who/Stream"
)

// who makes a call and returns which server answered.
func who(ctx context.Context, conn grpc.ClientConnInterface, options ...grpc.CallOption) (string, error) {
	var name wrapperspb.StringValue
	err := conn.Invoke(ctx, callMethod, &emptypb.Empty{}, &name, options...)
	return name.GetValue(), err
}

// openStream opens a stream and returns which server it leads to.
func openStream(ctx context.Context, conn grpc.ClientConnInterface) (grpc.ClientStream, string, error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, streamMethod)
	if err != nil {
		return nil, "", err
	}
	if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
		return nil, "", err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, "", err
	}
	var name wrapperspb.StringValue
	if err := stream.RecvMsg(&name); err != nil {
		return nil, "", err
	}
	return stream, name.GetValue(), nil
}

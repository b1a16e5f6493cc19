// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/server"
)

// patience bounds what a test waits for; nothing takes as long unless it is broken.
const patience = 20 * time.Second

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// connect opens a Connect stream to one server and receives the first keep-alive.
func connect(t *testing.T, c *evenkeeltest.Cluster, s *evenkeeltest.Server, id string) grpc.ServerStreamingClient[clientspb.ConnectionKeepAlive] {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.Addr(), grpc.WithTransportCredentials(credentials.NewTLS(c.TLS())))
	if err != nil {
		t.Fatalf("new client: %v", err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	stream, err := clientspb.NewConnectionServiceClient(conn).Connect(patient(t), &clientspb.ConnectRequest{ConnectionId: id}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatalf("connect to %s: %v", s.Name(), err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatalf("first keep-alive of %s: %v", s.Name(), err)
	}
	return stream
}

func TestClusterServesGRPCAndHTTPWithItsOwnAuthority(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	stream := connect(t, c, c.Servers[1], "one")
	if err := c.WaitCount(patient(t), 1); err != nil {
		t.Error(err)
	}
	if got := []int{c.Servers[0].Count(), c.Servers[1].Count()}; !cmp.Equal(got, []int{0, 1}) {
		t.Errorf("counts: got %v, want 0 and 1", got)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.TLS(), DisableKeepAlives: true}}
	answer, err := client.Get("https://" + c.Servers[1].Addr() + "/connections/count")
	if err != nil {
		t.Fatalf("get the count: %v", err)
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil || string(body) != "1" {
		t.Errorf("count: got %q, %v, want 1", body, err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("second keep-alive: %v", err)
	}
}

func TestKillResetsConnectionsAndRestartTakesThePortBack(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	s := c.Servers[0]
	addr, registry := s.Addr(), s.Registry()
	stream := connect(t, c, s, "one")
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer func() { _ = silent.Close() }()
	// The server has taken this connection when it has taken a later one.
	connect(t, c, s, "two")
	if err := s.Kill(); err != nil {
		t.Fatalf("kill: %v", err)
	}
	for err = error(nil); err == nil; {
		_, err = stream.Recv()
	}
	if got, want := status.Code(err), codes.Unavailable; got != want {
		t.Errorf("stream after the kill: got %v (%v), want %v", got, err, want)
	}
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read after the kill: got %v, want a reset", err)
	}
	if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after the kill: got %v, want refused", err)
	}
	if s.Running() || s.Count() != 0 {
		t.Errorf("after the kill: got running %v, count %d, want a server that is down", s.Running(), s.Count())
	}
	if err := s.Kill(); err != nil {
		t.Errorf("kill a second time: %v", err)
	}
	if err := s.Restart(); err != nil {
		t.Fatalf("restart: %v", err)
	}
	if got := s.Addr(); got != addr {
		t.Errorf("address after the restart: got %s, want %s", got, addr)
	}
	if s.Registry() == registry {
		t.Error("registry after the restart: got the old one, want a new one")
	}
	connect(t, c, s, "three")
	if err := s.WaitCount(patient(t), 1); err != nil {
		t.Error(err)
	}
}

func TestDrainTellsTheClientsAndEndsTheServer(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{
		Servers: 1, DrainLimit: 100 * time.Millisecond, Registry: server.RegistryConfig{DrainPeriod: 10 * time.Millisecond},
	})
	s := c.Servers[0]
	stream := connect(t, c, s, "one")
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(patient(t)) }()
	err := error(nil)
	for err == nil {
		_, err = stream.Recv()
	}
	if got := stream.Trailer().Get("evenkeel-reason"); status.Code(err) != codes.Unavailable || !cmp.Equal(got, []string{"draining"}) {
		t.Errorf("stream: got %v with reason %v, want Unavailable and draining", err, got)
	}
	// The client keeps its connection, so the limit ends the wait.
	if err := <-drained; !errors.Is(err, server.ErrDrainLimit) {
		t.Errorf("drain: got %v, want the limit", err)
	}
	if s.Running() {
		t.Error("it runs after the drain")
	}
	if err := errors.Join(s.Drain(patient(t)), s.Restart()); err != nil {
		t.Fatal(err)
	}
	connect(t, c, s, "two")
}

func TestRestartOfARunningServer(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	connect(t, c, c.Servers[0], "one")
	if err := c.Servers[0].Restart(); err != nil {
		t.Fatalf("restart: %v", err)
	}
	if got := c.Count(); got != 0 {
		t.Errorf("count after the restart: got %d, want 0", got)
	}
	connect(t, c, c.Servers[0], "two")
}

func TestClusterIsInItsDNS(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2, Domain: "fleet.test"})
	check := func(want map[string]uint16) {
		t.Helper()
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, c.DNS.Addr())
		}}
		_, records, err := resolver.LookupSRV(patient(t), "", "", "_chronicle._tcp.fleet.test.")
		if err != nil {
			t.Fatalf("look up SRV: %v", err)
		}
		got := map[string]uint16{}
		for _, r := range records {
			got[strings.TrimSuffix(r.Target, ".")] = r.Weight
			addrs, err := resolver.LookupNetIP(patient(t), "ip4", r.Target)
			if err != nil || !cmp.Equal(addrs, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, cmp.Comparer(func(a, b netip.Addr) bool { return a.Unmap() == b.Unmap() })) {
				t.Errorf("address of %s: got %v, %v, want 127.0.0.1", r.Target, addrs, err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("weights by target (-want +got):\n%s", diff)
		}
	}
	check(map[string]uint16{"node1.fleet.test": 100, "node2.fleet.test": 100})
	added, err := c.AddServers(2)
	if err != nil {
		t.Fatalf("add servers: %v", err)
	}
	added[0].SetSRV(0, 50)
	check(map[string]uint16{"node1.fleet.test": 100, "node2.fleet.test": 100, "node3.fleet.test": 50, "node4.fleet.test": 100})
	first := c.Servers[0]
	if err := c.RemoveServer(first); err != nil {
		t.Fatalf("remove a server: %v", err)
	}
	if first.Running() || len(c.Servers) != 3 {
		t.Errorf("after the removal: got running %v, %d servers, want a stopped one and 3", first.Running(), len(c.Servers))
	}
	check(map[string]uint16{"node2.fleet.test": 100, "node3.fleet.test": 50, "node4.fleet.test": 100})
}

func TestConnectionStrings(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	if got, want := c.ConnectionString(), "chronicle://"+c.Servers[0].Addr()+","+c.Servers[1].Addr(); got != want {
		t.Errorf("list: got %s, want %s", got, want)
	}
	if got, want := c.SRVConnectionString(), "chronicle+srv://cluster.test/?srvNameServer="+c.DNS.Addr(); got != want {
		t.Errorf("SRV: got %s, want %s", got, want)
	}
	if got, want := c.Servers[0].Endpoint().Addr(), c.Servers[0].Addr(); got != want {
		t.Errorf("endpoint: got %s, want %s", got, want)
	}
}

func TestPlaintextCluster(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Plaintext: true})
	conn, err := grpc.NewClient("passthrough:///"+c.Servers[0].Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatalf("new client: %v", err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := clientspb.NewConnectionServiceClient(conn).Connect(patient(t), &clientspb.ConnectRequest{ConnectionId: "one"})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("first keep-alive: %v", err)
	}
}

func TestWaitCountTellsTheLastCount(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.WaitCount(ctx, 7)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "count 7, last count 0") {
		t.Errorf("got %v, want a cancelled wait that tells the count", err)
	}
}

func TestClosedCluster(t *testing.T) {
	t.Parallel()
	c, err := evenkeeltest.New(evenkeeltest.Config{Servers: 2})
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	connect(t, c, c.Servers[0], "one")
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("close a second time: %v", err)
	}
	if _, err := c.AddServer(); err == nil {
		t.Error("add a server to a closed cluster: got no error, want one")
	}
}

func TestAddressThatIsNotHere(t *testing.T) {
	t.Parallel()
	c, err := evenkeeltest.New(evenkeeltest.Config{Addr: netip.MustParseAddr("192.0.2.77")})
	if err == nil {
		_ = c.Close()
		t.Fatal("new: got no error, want one: the address is not of this machine")
	}
}

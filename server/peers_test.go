// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/server"
)

// neighbourhood is what the servers of a test's cluster look each other up in. It can be changed.
type neighbourhood struct {
	endpoints atomic.Pointer[[]discover.Endpoint]
	failure   atomic.Pointer[error]
}

func (n *neighbourhood) Resolve(context.Context) ([]discover.Endpoint, error) {
	if err := n.failure.Load(); err != nil {
		return nil, *err
	}
	return slices.Clone(*n.endpoints.Load()), nil
}

// set names the servers at those addresses.
func (n *neighbourhood) set(t *testing.T, addrs ...string) {
	t.Helper()
	var endpoints []discover.Endpoint
	for _, addr := range addrs {
		ap, err := netip.ParseAddrPort(addr)
		if err != nil {
			t.Fatalf("address: %v", err)
		}
		endpoints = append(endpoints, discover.Endpoint{Host: ap.Addr().String(), Port: ap.Port()})
	}
	n.endpoints.Store(&endpoints)
}

// serveCluster serves n servers that know each other, themselves included, with one client each.
func serveCluster(t *testing.T, n int, config server.RegistryConfig) (*neighbourhood, []*fixture) {
	t.Helper()
	certificate, err := devcert.New()
	if err != nil {
		t.Fatalf("make a certificate: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Leaf)
	if config.Peers.Timeout == 0 {
		config.Peers.Timeout = patience // nobody is waited for here, but the machine may be busy
	}
	config.StaleAfter = time.Hour // the clients send no keep-alives
	config.Peers.Resolver = new(neighbourhood)
	config.Peers.TLS = &tls.Config{RootCAs: roots}
	all := config.Peers.Resolver.(*neighbourhood)
	var cluster []*fixture
	var addrs []string
	for i := range n {
		config.Name = fmt.Sprintf("node%d", i)
		registry := server.NewRegistry(config)
		settings := server.Config{
			Registry: registry, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}, Admin: server.AdminConfig{Loopback: true},
		}
		if config.Peers.Tokens != nil {
			settings.Auth = newAuth(t, server.AuthConfig{})
		}
		f := serveTCP(t, settings)
		f.roots = roots
		t.Cleanup(registry.Close)
		registry.ConnectForTest(fmt.Sprintf("client%d", i), "192.0.2.1:1")
		cluster, addrs = append(cluster, f), append(addrs, f.addr)
	}
	all.set(t, addrs...)
	return all, cluster
}

// list asks a server for the clients, and returns them as "client0@node0", and which peers it says did not answer.
func list(t *testing.T, conn *grpc.ClientConn, scope ...string) (clients []string, failed []string) {
	t.Helper()
	ctx := t.Context()
	for _, s := range scope {
		ctx = metadata.AppendToOutgoingContext(ctx, "evenkeel-scope", s)
	}
	var header metadata.MD
	got, err := clientspb.NewConnectionServiceClient(conn).GetConnectedClients(ctx, &emptypb.Empty{}, grpc.Header(&header))
	if err != nil {
		t.Fatalf("GetConnectedClients: %v", err)
	}
	for _, c := range got.GetItems() {
		clients = append(clients, c.GetConnectionId()+"@"+c.GetSiloAddress())
	}
	return clients, header.Get("evenkeel-peer-error")
}

var clientsOfAll = []string{"client0@node0", "client1@node1", "client2@node2"}

func TestClientsOfTheWholeClusterAreListed(t *testing.T) {
	t.Parallel()
	_, cluster := serveCluster(t, 3, server.RegistryConfig{})
	for i, f := range cluster {
		conn := f.grpcConn(t)
		for range 2 { // the second time on connections that are there
			if got, failed := list(t, conn); !slices.Equal(got, clientsOfAll) || len(failed) > 0 {
				t.Errorf("server %d: got %q without %q, want %q", i, got, failed, clientsOfAll)
			}
		}
		if got, want := first(list(t, conn, "local")), clientsOfAll[i:i+1]; !slices.Equal(got, want) {
			t.Errorf("server %d, asked for its own: got %q, want %q", i, got, want)
		}
		if got := first(list(t, conn, "everything")); !slices.Equal(got, clientsOfAll) {
			t.Errorf("server %d, asked for a scope that there is not: got %q, want %q", i, got, clientsOfAll)
		}
	}
}

func TestPeersThatAskForTokensAreGivenThem(t *testing.T) {
	t.Parallel()
	tokens, err := credential.NewClientCredentials(credential.ClientCredentialsConfig{
		ClientID: "app", ClientSecret: connstring.NewSecret(planted),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, cluster := serveCluster(t, 3, server.RegistryConfig{Peers: server.PeersConfig{Tokens: tokens}})
	for i, f := range cluster {
		g := guarded{fixture: f, http: f.httpClient(t, 1)}
		conn := f.grpcConn(t, grpc.WithPerRPCCredentials(bearer(g.token(t))))
		if got, failed := list(t, conn); !slices.Equal(got, clientsOfAll) || len(failed) > 0 {
			t.Errorf("server %d: got %q without %q, want %q", i, got, failed, clientsOfAll)
		}
	}
}

// bearer is a token that goes with every call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return true }

func first[A, B any](a A, _ B) A { return a }

func TestServerUnderSeveralNamesCountsOnce(t *testing.T) {
	t.Parallel()
	all, cluster := serveCluster(t, 3, server.RegistryConfig{})
	endpoints := *all.endpoints.Load()
	for _, e := range *all.endpoints.Load() {
		e.Addrs = []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr(e.Host), e.Port)}
		e.Host = "localhost"
		endpoints = append(endpoints, e)
	}
	all.endpoints.Store(&endpoints)
	if got, failed := list(t, cluster[0].grpcConn(t)); !slices.Equal(got, clientsOfAll) || len(failed) > 0 {
		t.Errorf("got %q without %q, want %q", got, failed, clientsOfAll)
	}
}

func TestPeerThatDoesNotAnswerIsReported(t *testing.T) {
	t.Parallel()
	all, cluster := serveCluster(t, 3, server.RegistryConfig{Peers: server.PeersConfig{Timeout: 3 * time.Second}})
	// One that is down, one that takes the connection and says nothing, and one that others have left.
	if err := askHealth(t, cluster[1].grpcConn(t)); err != nil {
		t.Fatalf("call: %v", err) // it has begun to serve
	}
	conn := cluster[0].grpcConn(t)
	list(t, conn) // the connections to the peers are there now
	cluster[1].Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer func() { _ = silent.Close() }()
	all.set(t, cluster[0].addr, cluster[1].addr, cluster[2].addr, silent.Addr().String())
	got, failed := list(t, conn)
	if want := []string{"client0@node0", "client2@node2"}; !slices.Equal(got, want) {
		t.Errorf("clients: got %q, want %q", got, want)
	}
	if len(failed) != 2 {
		t.Fatalf("failed: got %q, want two", failed)
	}
	for i, want := range []string{cluster[1].addr + ": Unavailable: ", silent.Addr().String() + ": "} {
		if !strings.HasPrefix(failed[i], want) || len(failed[i]) > 200 {
			t.Errorf("failed: got %q, want it to begin with %q and to be short", failed[i], want)
		}
	}
	// One that is no longer named is not asked.
	all.set(t, cluster[0].addr, cluster[2].addr)
	if got, failed := list(t, conn); len(got) != 2 || len(failed) > 0 {
		t.Errorf("without them: got %q without %q, want two clients and no failure", got, failed)
	}
}

func TestFailedLookupOfPeersIsReported(t *testing.T) {
	t.Parallel()
	all, cluster := serveCluster(t, 3, server.RegistryConfig{})
	conn := cluster[0].grpcConn(t)
	list(t, conn)
	broken := error(&discover.LookupError{Name: "x", Kind: discover.ErrServerFailed, Err: errors.New("bro\nken é")})
	all.failure.Store(&broken)
	got, failed := list(t, conn)
	if !slices.Equal(got, clientsOfAll) {
		t.Errorf("clients: got %q, want %q, found among the servers known before", got, clientsOfAll)
	}
	if len(failed) != 1 || !strings.HasPrefix(failed[0], "lookup: ") || !strings.Contains(failed[0], "bro?ken ?") {
		t.Errorf("failed: got %q, want the lookup, in printable ASCII", failed)
	}
}

func TestManyFailedPeersAreToldBriefly(t *testing.T) {
	t.Parallel()
	all, cluster := serveCluster(t, 1, server.RegistryConfig{})
	addrs := []string{cluster[0].addr}
	for i := range 300 { // nobody listens on port 1
		addrs = append(addrs, fmt.Sprintf("127.0.%d.%d:1", 1+i/250, 1+i%250))
	}
	all.set(t, addrs...)
	got, failed := list(t, cluster[0].grpcConn(t))
	if !slices.Equal(got, clientsOfAll[:1]) {
		t.Errorf("clients: got %q, want its own", got)
	}
	// 255 of the 256 that are asked do not answer, and one line says how many were not asked.
	if len(failed) != 17 || failed[16] != "peers: 240 more did not answer" {
		t.Errorf("failed: got %d lines, the last %q, want 16 and one that counts the rest", len(failed), failed[len(failed)-1])
	}
}

func TestCloseEndsAQuestionToPeers(t *testing.T) {
	t.Parallel()
	all, cluster := serveCluster(t, 1, server.RegistryConfig{Peers: server.PeersConfig{Timeout: time.Hour}})
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer func() { _ = silent.Close() }()
	all.set(t, silent.Addr().String())
	conn := cluster[0].grpcConn(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = clientspb.NewConnectionServiceClient(conn).GetConnectedClients(t.Context(), &emptypb.Empty{}) // ends somehow
	}()
	accepted, err := silent.Accept()
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	defer func() { _ = accepted.Close() }()
	cluster[0].Registry().Close()
	waitEnded(t, "the question", done)
}

func TestHungPeerCostsCallersNoOtherPeer(t *testing.T) {
	t.Parallel()
	all, cluster := serveCluster(t, 3, server.RegistryConfig{Peers: server.PeersConfig{Timeout: 3 * time.Second}})
	relay := evenkeeltest.StartRelay(t, cluster[2].addr)
	all.set(t, cluster[0].addr, cluster[1].addr, relay.Addr())
	conn := cluster[0].grpcConn(t)
	list(t, conn) // the connections to the peers are there now
	relay.Stall()
	var callers sync.WaitGroup
	for range 12 {
		callers.Go(func() {
			got, failed := list(t, conn)
			if want := clientsOfAll[:2]; !slices.Equal(got, want) {
				t.Errorf("clients: got %q, want %q", got, want)
			}
			if want := relay.Addr() + ": DeadlineExceeded: "; len(failed) != 1 || !strings.HasPrefix(failed[0], want) {
				t.Errorf("failed: got %q, want one that begins with %q", failed, want)
			}
		})
	}
	callers.Wait()
}

func TestManyHungPeersCostNoOtherPeer(t *testing.T) {
	t.Parallel()
	all, cluster := serveCluster(t, 2, server.RegistryConfig{Peers: server.PeersConfig{Timeout: 3 * time.Second}})
	silent, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer func() { _ = silent.Close() }() // the system takes connections in, and nobody answers
	port := silent.Addr().(*net.TCPAddr).Port
	var addrs []string
	for i := range 50 {
		addrs = append(addrs, fmt.Sprintf("127.0.1.%d:%d", 1+i, port))
	}
	conn := cluster[0].grpcConn(t)
	list(t, conn)                                 // the connection to the healthy one is there now
	all.set(t, append(addrs, cluster[1].addr)...) // and it is the last
	got, failed := list(t, conn)
	if want := clientsOfAll[:2]; !slices.Equal(got, want) {
		t.Errorf("clients: got %q, want %q", got, want)
	}
	if len(failed) != 17 {
		t.Errorf("failed: got %d lines, want 16 and one that counts the rest", len(failed))
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

const roundRobin = `{"loadBalancingConfig": [{"round_robin": {}}]}`

// channelTo makes a channel to a target of the scheme "cluster", which the SRV records of the cluster resolve.
func channelTo(t *testing.T, cluster *evenkeeltest.Cluster, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	builder := discover.NewBuilder("cluster", func(target resolver.Target) (discover.Resolver, error) {
		return discover.SRV(discover.SRVConfig{Name: target.Endpoint(), NameServer: cluster.DNS.Addr()})
	})
	conn, err := grpc.NewClient("cluster:///"+cluster.Domain(),
		append(options, grpc.WithResolvers(builder), grpc.WithDefaultServiceConfig(roundRobin))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call makes a call and returns who answered it. A call that a dying server cut off is made again.
func call(ctx context.Context, t *testing.T, conn *grpc.ClientConn) *peer.Peer {
	t.Helper()
	for {
		var who peer.Peer
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{},
			grpc.Peer(&who), grpc.WaitForReady(true))
		if err == nil {
			return &who
		}
		if status.Code(err) != codes.Unavailable || ctx.Err() != nil {
			t.Fatalf("call: %v", err)
		}
	}
}

// callUntil makes calls until exactly the servers answer, one after the other.
func callUntil(ctx context.Context, t *testing.T, conn *grpc.ClientConn, servers ...*evenkeeltest.Server) {
	t.Helper()
	for right := false; !right; {
		answers := make(map[string]int)
		for range 4 * len(servers) {
			answers[call(ctx, t, conn).Addr.String()]++
		}
		right = len(answers) == len(servers)
		for _, s := range servers {
			right = right && answers[s.Addr()] == 4
		}
		if ctx.Err() != nil {
			t.Fatalf("answered by %v, want 4 by each of %d", answers, len(servers))
		}
	}
}

func TestAChannelOverABuilder(t *testing.T) {
	t.Parallel()
	ctx := lateContext(t)
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 3, Plaintext: true})
	conn := channelTo(t, cluster, grpc.WithTransportCredentials(insecure.NewCredentials()))
	callUntil(ctx, t, conn, cluster.Servers...)

	// A server that goes away makes the channel give a hint, and the next lookup finds the one that came.
	record := discover.DefaultService + "." + cluster.Domain()
	asked, left := cluster.DNS.Count(record, "SRV"), cluster.Servers[0]
	if _, err := cluster.AddServer(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.RemoveServer(left); err != nil {
		t.Fatal(err)
	}
	if err := cluster.DNS.Wait(ctx, record, "SRV", asked+1); err != nil {
		t.Fatalf("the channel gave no hint: %v", err)
	}
	callUntil(ctx, t, conn, cluster.Servers...)

	// A lookup that fails takes nothing away.
	setFault(t, cluster.DNS, record, "", evenkeeltest.DNSFault{Code: "NXDOMAIN"})
	asked = cluster.DNS.Count(record, "SRV")
	if err := cluster.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.DNS.Wait(ctx, record, "SRV", asked+2); err != nil {
		t.Fatalf("the channel gave no hint: %v", err)
	}
	callUntil(ctx, t, conn, cluster.Servers[1:]...)
}

// The certificates of the servers are checked for their names, not for the name in the target.
func TestAChannelOverABuilderWithTLS(t *testing.T) {
	t.Parallel()
	ctx := lateContext(t)
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	conn := channelTo(t, cluster, grpc.WithTransportCredentials(credentials.NewTLS(cluster.TLS())))
	callUntil(ctx, t, conn, cluster.Servers...)
	for range 2 {
		who := call(ctx, t, conn)
		info, ok := who.AuthInfo.(credentials.TLSInfo)
		if !ok {
			t.Fatalf("got %T, want TLS", who.AuthInfo)
		}
		for _, s := range cluster.Servers {
			if s.Addr() == who.Addr.String() && info.State.ServerName != s.Name() {
				t.Errorf("%s was checked for the name %q, want %q", s.Addr(), info.State.ServerName, s.Name())
			}
		}
	}
}

// closable notes when it is closed.
type closable struct {
	discover.Resolver

	closed chan<- struct{}
}

func (c closable) Close() error { c.closed <- struct{}{}; return nil }

// A channel that has gone idle closes its resolver and builds one anew for the next call.
func TestAChannelOverABuilderThatGoesIdle(t *testing.T) {
	t.Parallel()
	ctx := lateContext(t)
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Plaintext: true})
	opened, closed := make(chan struct{}, 9), make(chan struct{}, 9)
	builder := discover.NewBuilder("cluster", func(resolver.Target) (discover.Resolver, error) {
		opened <- struct{}{}
		return closable{discover.Static(cluster.Servers[0].Endpoint()), closed}, nil
	})
	conn, err := grpc.NewClient("cluster:///x", grpc.WithResolvers(builder), grpc.WithIdleTimeout(50*time.Millisecond),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for range 2 {
		call(ctx, t, conn)
		for state := conn.GetState(); state != connectivity.Idle; state = conn.GetState() {
			if !conn.WaitForStateChange(ctx, state) {
				t.Fatal("the channel did not go idle")
			}
		}
		select {
		case <-closed:
		case <-ctx.Done():
			t.Fatal("the source was not closed")
		}
	}
	if len(opened) != 2 {
		t.Errorf("opened %d sources, want 2", len(opened))
	}
}

// Close of a channel waits for no name server.
func TestAChannelClosesBesideAHungLookup(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Plaintext: true})
	record := discover.DefaultService + "." + cluster.Domain()
	setFault(t, cluster.DNS, record, "", evenkeeltest.DNSFault{Silent: true})
	conn := channelTo(t, cluster, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn.Connect()
	if err := cluster.DNS.Wait(lateContext(t), record, "SRV", 1); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("Close took %v beside a hung lookup", took) // as a rule below 1 ms; other tests run at the same time
	}
}

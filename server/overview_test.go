// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/server"
)

func TestObserverSeesTheWholeCluster(t *testing.T) {
	t.Parallel()
	_, cluster := serveCluster(t, 2, server.RegistryConfig{ObserveInterval: 10 * time.Millisecond})
	seen, _ := observe(t, cluster[0].grpcConn(t))
	await := func(want string) {
		t.Helper()
		for s := range seen {
			if s.ids == want {
				return
			}
		}
		t.Errorf("observer: the stream ended without %q", want)
	}
	await("client0 client1")
	leave := cluster[1].Registry().ConnectForTest("other", "192.0.2.1:1")
	await("client0 client1 other")
	cluster[0].Registry().ConnectForTest("own", "192.0.2.1:1")
	await("client0 client1 other own")
	leave()
	await("client0 client1 own")
}

// A frozen peer has not failed yet, for as long as its time is not over.
func TestFrozenPeerHoldsNoObserverUp(t *testing.T) {
	t.Parallel()
	all, cluster := serveCluster(t, 3, server.RegistryConfig{
		ObserveInterval: 10 * time.Millisecond, Peers: server.PeersConfig{Timeout: time.Hour},
	})
	relay := evenkeeltest.StartRelay(t, cluster[2].addr)
	all.set(t, cluster[0].addr, cluster[1].addr, relay.Addr())
	conn := cluster[0].grpcConn(t)
	list(t, conn) // the connections to the peers are there now
	relay.Stall()
	var observers []<-chan sighting
	for range 8 {
		seen, _ := observe(t, conn)
		observers = append(observers, seen)
	}
	awaitList(t, observers, "client0 client1")
	leave := cluster[0].Registry().ConnectForTest("own", "192.0.2.1:1")
	awaitList(t, observers, "client0 client1 own")
	cluster[1].Registry().ConnectForTest("other", "192.0.2.1:1")
	awaitList(t, observers, "client0 client1 other own")
	relay.Resume()
	awaitList(t, observers, "client0 client1 client2 other own")
	leave()
	awaitList(t, observers, "client0 client1 client2 other")
}

// awaitList waits until each observer has seen a list.
func awaitList(t *testing.T, observers []<-chan sighting, want string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for i, seen := range observers {
		for found := false; !found; {
			select {
			case s, ok := <-seen:
				if !ok {
					t.Fatalf("observer %d: the stream ended without %q", i, want)
				}
				found = s.ids == want
			case <-deadline.C:
				t.Fatalf("observer %d: waited %v in vain for %q", i, patience, want)
			}
		}
	}
}

func TestObserverLosesAndFindsTheClientsOfAPeer(t *testing.T) {
	t.Parallel()
	all, cluster := serveCluster(t, 2, server.RegistryConfig{
		ObserveInterval: 10 * time.Millisecond, Peers: server.PeersConfig{Timeout: 200 * time.Millisecond},
	})
	relay := evenkeeltest.StartRelay(t, cluster[1].addr)
	all.set(t, cluster[0].addr, relay.Addr())
	conn := cluster[0].grpcConn(t)
	seen, _ := observe(t, conn)
	observers := []<-chan sighting{seen}
	awaitList(t, observers, "client0 client1")
	relay.Stall()
	awaitList(t, observers, "client0")
	// Who comes now is told in the first list what is known, and that it is not all.
	late, stream := observe(t, conn)
	awaitList(t, []<-chan sighting{late}, "client0")
	header, err := stream.Header()
	if got := header.Get("evenkeel-peer-error"); err != nil || len(got) != 1 || !strings.HasPrefix(got[0], relay.Addr()+": ") {
		t.Errorf("header: got %q, %v, want the peer that does not answer", got, err)
	}
	relay.Resume()
	awaitList(t, append(observers, late), "client0 client1")
}

// Nobody asks on behalf of observers that have left.
func TestPeersAreNotAskedWithoutObservers(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		lookups := new(countedLookups)
		registry := server.NewRegistry(server.RegistryConfig{Peers: server.PeersConfig{Resolver: lookups}})
		config.Registry = registry
		f := serveMemory(t, config)
		ctx, cancel := context.WithCancel(t.Context())
		for range 8 {
			stream, err := clientspb.NewConnectionServiceClient(f.grpcConn(t)).ObserveConnectedClients(ctx, &emptypb.Empty{})
			if err == nil {
				_, err = stream.Recv()
			}
			if err != nil {
				t.Fatalf("observe: %v", err)
			}
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if got := lookups.Load(); got != 21 {
			t.Errorf("lookups in 10 s for 8 observers: got %d, want one in each half of a second", got)
		}
		cancel()
		synctest.Wait()
		time.Sleep(time.Minute)
		if got := lookups.Load(); got != 21 {
			t.Errorf("lookups after the observers had left: got %d in all, want no more", got)
		}
		registry.Close()
	})
}

// countedLookups is a resolver that finds nobody and counts how often it was asked.
type countedLookups struct{ atomic.Int64 }

func (c *countedLookups) Resolve(context.Context) ([]discover.Endpoint, error) {
	c.Add(1)
	return nil, nil
}

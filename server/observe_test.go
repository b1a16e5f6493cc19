// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/server"
)

// sighting is a list that an observer got, as "a b", and when.
type sighting struct {
	at  time.Duration
	ids string
}

// observe watches the list of clients. The channel gets the lists, and is closed at the end of the stream.
func observe(t *testing.T, conn *grpc.ClientConn) (<-chan sighting, grpc.ServerStreamingClient[clientspb.IEnumerable_ConnectedClient]) {
	t.Helper()
	begin := time.Now()
	stream, err := clientspb.NewConnectionServiceClient(conn).ObserveConnectedClients(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatalf("observe: %v", err)
	}
	seen := make(chan sighting, 100)
	go func() {
		defer close(seen)
		for {
			list, err := stream.Recv()
			if err != nil {
				return
			}
			var ids []string
			for _, c := range list.GetItems() {
				ids = append(ids, c.GetConnectionId())
			}
			seen <- sighting{time.Since(begin), strings.Join(ids, " ")}
		}
	}()
	return seen, stream
}

// sightings takes what has been seen so far.
func sightings(seen <-chan sighting) []sighting {
	synctest.Wait()
	var all []sighting
	for {
		select {
		case s, ok := <-seen:
			if !ok {
				return all
			}
			all = append(all, s)
		default:
			return all
		}
	}
}

func TestObserverSeesChangesOnceASecondAtMost(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		registry := f.Registry()
		seen, stream := observe(t, f.grpcConn(t))
		synctest.Wait()
		time.Sleep(300 * time.Millisecond)
		registry.ConnectForTest("a", "192.0.2.1:1")
		leave := registry.ConnectForTest("b", "192.0.2.1:1")
		registry.ConnectForTest("c", "192.0.2.1:1")
		time.Sleep(time.Second) // 1.3 s: the three were told together at 1 s
		registry.ConnectForTest("passing", "192.0.2.1:1")()
		time.Sleep(1200 * time.Millisecond) // 2.5 s: nothing to tell of who came and went
		for range 10 {                      // that somebody was heard of is no change
			for _, id := range []string{"a", "b", "c"} {
				registry.KeepAliveForTest(id)
			}
			time.Sleep(100 * time.Millisecond)
		}
		leave() // 3.5 s: told at once, for nothing was told in the second before
		want := []sighting{{0, ""}, {time.Second, "a b c"}, {3500 * time.Millisecond, "a c"}}
		if got := sightings(seen); !slices.Equal(got, want) {
			t.Errorf("lists: got %v, want %v", got, want)
		}
		registry.Close()
		for range seen {
		}
		if got := stream.Trailer().Get(contract.ReasonTrailer); !slices.Equal(got, []string{contract.ReasonClosing}) {
			t.Errorf("trailer at the end: got %q, want %q", got, contract.ReasonClosing)
		}
	})
}

func TestObserverIsReleasedByADrain(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		seen, stream := observe(t, f.grpcConn(t))
		connect(t, f.grpcConn(t), named("a"))
		begin := time.Now()
		if err := f.Registry().Drain(t.Context()); err != nil {
			t.Errorf("drain: %v", err)
		}
		for range seen {
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("end of the stream: after %v, want it with the last client", took)
		}
		if got := stream.Trailer().Get(contract.ReasonTrailer); !slices.Equal(got, []string{contract.ReasonDraining}) {
			t.Errorf("trailer: got %q, want %q", got, contract.ReasonDraining)
		}
	})
}

func TestObserversAreBounded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		config       server.RegistryConfig
		third        string // where a third observer comes from, when two have come from 127.0.0.1
		want         codes.Code
		wantRefusals uint64
	}{
		{"in all", server.RegistryConfig{MaxObservers: 2}, "127.0.0.2", codes.ResourceExhausted, 1},
		{"of one address", server.RegistryConfig{MaxObserversPerAddress: 2}, "127.0.0.1", codes.ResourceExhausted, 1},
		{"of another address", server.RegistryConfig{MaxObserversPerAddress: 2}, "127.0.0.2", codes.OK, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := serveTCP(t, server.Config{Registry: server.NewRegistry(tt.config)})
			first := func(ctx context.Context, conn *grpc.ClientConn) error {
				stream, err := clientspb.NewConnectionServiceClient(conn).ObserveConnectedClients(ctx, &emptypb.Empty{})
				if err == nil {
					_, err = stream.Recv()
				}
				return err
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			conn := f.grpcConn(t) // all streams of one connection count
			for _, ctx := range []context.Context{ctx, t.Context()} {
				if err := first(ctx, conn); err != nil {
					t.Fatalf("observe: %v", err)
				}
			}
			third := f.from(tt.third).grpcConn(t)
			if err := first(t.Context(), third); status.Code(err) != tt.want {
				t.Errorf("a third observer: got %v, want %v", err, tt.want)
			}
			if got := f.Registry().Stats().RefusedObservers; got != tt.wantRefusals {
				t.Errorf("refused observers: got %d, want %d", got, tt.wantRefusals)
			}
			cancel()
			eventually(t, "a place for another one", func() bool { return first(t.Context(), third) == nil })
		})
	}
}

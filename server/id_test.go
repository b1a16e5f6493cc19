// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/server"
)

const takenText = "connection refused: another client has the same connection id"

// Ids are in the list of clients, for all to see.
func TestLiveClientKeepsItsID(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		conn, stranger := f.grpcConn(t), f.grpcConn(t)
		client := clientspb.NewConnectionServiceClient(conn)
		s := connect(t, conn, named("same"))
		for begin := time.Now(); time.Since(begin) < time.Minute; {
			id, ok := <-s.beats
			if !ok {
				t.Fatalf("stream after %v: got %v, want it open", time.Since(begin), s.err)
			}
			time.Sleep(900 * time.Millisecond) // it is slow to answer
			checkRefused(t, stranger, "same", contract.ReasonTaken, takenText)
			if _, err := client.ConnectionKeepAlive(t.Context(), &clientspb.ConnectionKeepAlive{ConnectionId: id}); err != nil {
				t.Fatalf("keep-alive: %v", err)
			}
		}
		if got := f.Registry().Count(); got != 1 {
			t.Errorf("count: got %d, want 1", got)
		}
		s.cancel()
		synctest.Wait()
		connect(t, stranger, named("same")) // an id that is nobody's any more
	})
}

// One in a debugger is silent for as long as its user likes; strangers get nothing of that.
func TestSilentClientKeepsItsIDTowardsOtherAddresses(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		debugged := named("same")
		debugged.IsRunningWithDebugger = true
		s := connect(t, f.grpcConn(t), debugged) // from no address at all
		time.Sleep(time.Minute)
		f.Registry().ConnectForTest("same", "192.0.2.1:1")
		if got := f.Registry().Stats(); got.Clients != 1 || got.TakenClients != 1 || got.ReplacedClients != 0 {
			t.Errorf("stats: got %+v, want the second one refused", got)
		}
		s.cancel()
		synctest.Wait()
		if got := f.Registry().Count(); got != 0 {
			t.Errorf("count after it left: got %d, want 0", got)
		}
	})
}

func TestNewerStreamReplacesASilentOneWithTheSameID(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		conn := f.grpcConn(t)
		older := connect(t, conn, named("same"))
		time.Sleep(4 * time.Second)
		newer := connect(t, f.grpcConn(t), named("same"))
		checkEnd(t, older, contract.ReasonReplaced, "connection replaced: another one has the same connection id")
		synctest.Wait()
		if got := f.Registry().Count(); got != 1 {
			t.Errorf("count after the older stream's clean-up: got %d, want 1, the newer one", got)
		}
		// The older one's time is up here; it must not take the newer one with it.
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := f.Registry().Count(); got != 1 {
			t.Errorf("count when the older one would have been evicted: got %d, want 1", got)
		}
		newer.cancel()
		synctest.Wait()
		if got := f.Registry().Count(); got != 0 {
			t.Errorf("count after the newer one left: got %d, want 0", got)
		}
	})
}

func TestConnectionIDs(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{})
	client := clientspb.NewConnectionServiceClient(f.grpcConn(t))
	tests := []struct {
		name, id string
		want     codes.Code
	}{
		{"empty", "", codes.InvalidArgument},
		{"longest", strings.Repeat("x", 128), codes.OK},
		{"too long", strings.Repeat("x", 129), codes.InvalidArgument},
		{"10 kB", strings.Repeat("x", 10_000), codes.InvalidArgument},
		{"hex digits of Elixir", "0123456789abcdef", codes.OK},
		{"any text", "ключ /\n{}", codes.OK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stream, err := client.Connect(t.Context(), named(tt.id))
			if err != nil {
				t.Fatalf("connect: %v", err)
			}
			_, err = stream.Recv()
			if got := status.Code(err); got != tt.want {
				t.Errorf("got %v (%v), want %v", got, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "xxx") {
				t.Errorf("error: got %q, want one that does not repeat the id", err)
			}
		})
	}
}

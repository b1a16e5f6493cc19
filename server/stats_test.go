// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"net/http"
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

// What is wrong is refused and counted, and nobody else loses anything by it.
func TestWhatIsRefusedIsCounted(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		config.Registry = server.NewRegistry(server.RegistryConfig{MaxClients: 3, MaxReservations: 2})
		f := serveMemory(t, config)
		conn, client := f.grpcConn(t), f.httpClient(t, 2)
		good := named("good")
		good.IsRunningWithDebugger = true
		s := connect(t, conn, good)
		silent := connect(t, conn, named("silent"))
		older := connect(t, conn, named("same"))
		for _, refused := range []struct {
			id   string
			want codes.Code
		}{
			{"", codes.InvalidArgument},
			{strings.Repeat("x", 10_000), codes.InvalidArgument},
			{"one too many", codes.ResourceExhausted},
		} {
			stream, err := clientspb.NewConnectionServiceClient(conn).Connect(t.Context(), named(refused.id))
			if err == nil {
				_, err = stream.Recv()
			}
			if got := status.Code(err); got != refused.want {
				t.Errorf("connect with an id of %d bytes: got %v, want %v", len(refused.id), err, refused.want)
			}
		}
		f.Registry().ConnectForTest("other", "192.0.2.1:1") // also one too many
		for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
			if got := f.reserve(t, client); got != want {
				t.Errorf("reserve: got status %d, want %d", got, want)
			}
		}
		if _, err := clientspb.NewConnectionServiceClient(conn).ConnectionKeepAlive(t.Context(), &clientspb.ConnectionKeepAlive{ConnectionId: "somebody else's"}); err != nil {
			t.Errorf("keep-alive for an unknown id: %v", err)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		_, _ = silent.wait(), older.wait() // evicted
		first := connect(t, conn, named("again"))
		checkRefused(t, conn, "again", contract.ReasonTaken, takenText)
		time.Sleep(2 * time.Second) // it has fallen silent
		connect(t, conn, named("again"))
		_ = first.wait() // replaced
		want := server.RegistryStats{
			Clients: 2, Reservations: 0, InvalidClients: 2, RefusedClients: 2, TakenClients: 1, ReplacedClients: 1, EvictedClients: 2,
			UnknownKeepAlives: 1, RefusedReservations: 1,
		}
		if got := f.Registry().Stats(); got != want {
			t.Errorf("stats: got %+v, want %+v", got, want)
		}
		select {
		case <-s.beats:
		default:
			t.Errorf("the good client's stream: got no keep-alive, %v, want it to go on", s.err)
		}
		if got := f.Server.Stats().Connections; got == 0 {
			t.Error("connections: got 0, want those of this test")
		}
	})
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/server"
)

// transports are the two ways on which a call reaches the service.
var transports = []struct {
	name   string
	config server.Config
}{
	{"grpc-go's own transport", server.Config{}},
	{"net/http", server.Config{Plaintext: true}},
}

// onFakeClock runs a test on both transports, in a bubble.
func onFakeClock(t *testing.T, test func(t *testing.T, config server.Config)) {
	t.Helper()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, transport.config) })
		})
	}
}

// checkEnd fails unless the stream was ended by the server for the given reason and with the given text.
func checkEnd(t *testing.T, s *session, reason, text string) {
	t.Helper()
	err := s.wait()
	if got, want := status.Code(err), codes.Unavailable; got != want {
		t.Errorf("status: got %v (%v), want %v", got, err, want)
	}
	if got := status.Convert(err).Message(); got != text {
		t.Errorf("text: got %q, want %q", got, text)
	}
	if got := s.stream.Trailer().Get(contract.ReasonTrailer); !cmp.Equal(got, []string{reason}) {
		t.Errorf("trailer: got %q, want %q", got, reason)
	}
}

func TestKeepAlivesComeAtOnceAndEverySecond(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		conn := f.grpcConn(t)
		begin := time.Now()
		s := connect(t, conn, named("one"))
		if took := time.Since(begin); took != 0 {
			t.Errorf("first keep-alive: got it after %v, want at once", took)
		}
		for i := 1; i <= 4; i++ {
			if id := <-s.beats; id != "one" {
				t.Errorf("keep-alive %d: got id %q, want one", i, id)
			}
			if got, want := time.Since(begin), time.Duration(i)*time.Second; got != want {
				t.Errorf("keep-alive %d: got it after %v, want %v", i, got, want)
			}
		}
	})
}

func TestSilentClientIsRemovedAndTold(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		conn := f.grpcConn(t)
		s := connect(t, conn, named("one"))
		time.Sleep(5*time.Second - time.Millisecond)
		if got := f.Registry().Count(); got != 1 {
			t.Errorf("count just before 5 s: got %d, want 1", got)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := f.Registry().Count(); got != 0 {
			t.Errorf("count after 5 s: got %d, want 0", got)
		}
		checkEnd(t, s, contract.ReasonEvicted, "connection evicted: no keep-alive for 5 s")
		// Too late, but no error: that is what a stock server answers.
		if _, err := clientspb.NewConnectionServiceClient(conn).ConnectionKeepAlive(t.Context(), &clientspb.ConnectionKeepAlive{ConnectionId: "one"}); err != nil {
			t.Errorf("keep-alive after the eviction: %v", err)
		}
		if got := f.Registry().Count(); got != 0 {
			t.Errorf("count after a keep-alive that came too late: got %d, want 0", got)
		}
	})
}

func TestEvictionTellsTheTimeThatIsSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := serveMemory(t, server.Config{Registry: server.NewRegistry(server.RegistryConfig{StaleAfter: 1500 * time.Millisecond})})
		s := connect(t, f.grpcConn(t), named("one"))
		begin := time.Now()
		checkEnd(t, s, contract.ReasonEvicted, "connection evicted: no keep-alive for 1.5 s")
		if got, want := time.Since(begin), 1500*time.Millisecond; got != want {
			t.Errorf("evicted after: got %v, want %v", got, want)
		}
	})
}

func TestClientThatAnswersStays(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		conn := f.grpcConn(t)
		s := connect(t, conn, named("one"))
		client := clientspb.NewConnectionServiceClient(conn)
		for begin := time.Now(); time.Since(begin) < 10*time.Minute; {
			id, ok := <-s.beats
			if !ok {
				t.Fatalf("stream after %v: got %v, want it open", time.Since(begin), s.err)
			}
			if _, err := client.ConnectionKeepAlive(t.Context(), &clientspb.ConnectionKeepAlive{ConnectionId: id}); err != nil {
				t.Fatalf("keep-alive after %v: %v", time.Since(begin), err)
			}
			// Four of five answers are lost: that is still one each 5 s less a bit.
			for range 3 {
				<-s.beats
			}
		}
		if got := f.Registry().Count(); got != 1 {
			t.Errorf("count: got %d, want 1", got)
		}
	})
}

func TestClientInADebuggerStaysAsLongAsItsTransport(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		conn := f.grpcConn(t)
		request := named("one")
		request.IsRunningWithDebugger = true
		s := connect(t, conn, request)
		time.Sleep(time.Hour)
		if got := f.Registry().Count(); got != 1 {
			t.Errorf("count after a silent hour: got %d, want 1", got)
		}
		if err := conn.Close(); err != nil {
			t.Fatalf("close the connection: %v", err)
		}
		_ = s.wait() // the client's own doing
		synctest.Wait()
		if got := f.Registry().Count(); got != 0 {
			t.Errorf("count after its transport has gone: got %d, want 0", got)
		}
	})
}

func TestClientThatLeavesIsRemovedAtOnce(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		s := connect(t, f.grpcConn(t), named("one"))
		begin := time.Now()
		s.cancel()
		synctest.Wait()
		if got := f.Registry().Count(); got != 0 || time.Since(begin) != 0 {
			t.Errorf("count after the client left: got %d after %v, want 0 at once", got, time.Since(begin))
		}
	})
}

// A client in a debugger may stand still for days.
func TestClientThatAnswersNothingIsSentSixtyKeepAlives(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		conn := f.grpcConn(t)
		debugged := named("one")
		debugged.IsRunningWithDebugger = true
		s := connect(t, conn, debugged) // takes the first one
		for range 3 {
			time.Sleep(time.Hour)
			synctest.Wait()
			got := len(s.beats)
			for range got {
				<-s.beats
			}
			if got != 59 { // and the one before them
				t.Errorf("keep-alives in an hour: got %d more, want 60 in all", got)
			}
			// It is back, and has all it needs to go on.
			if _, err := clientspb.NewConnectionServiceClient(conn).ConnectionKeepAlive(t.Context(), &clientspb.ConnectionKeepAlive{ConnectionId: "one"}); err != nil {
				t.Fatalf("keep-alive: %v", err)
			}
			begin := time.Now()
			if _, ok := <-s.beats; !ok || time.Since(begin) > time.Second {
				t.Errorf("the next keep-alive: came after %v, stream %v, want it within 1 s", time.Since(begin), s.err)
			}
		}
		if got := f.Registry().Count(); got != 1 {
			t.Errorf("count: got %d, want it still there", got)
		}
	})
}

func TestConnectedClientsAreListed(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		config.Registry = server.NewRegistry(server.RegistryConfig{Name: "node1"})
		f := serveMemory(t, config)
		conn := f.grpcConn(t)
		client := clientspb.NewConnectionServiceClient(conn)
		full := &clientspb.ConnectRequest{
			ConnectionId: "b", ClientVersion: "1.2", IsRunningWithDebugger: true, ProcessId: 7,
			ProcessPath: "/bin/x", MachineName: "host", ClientType: "Go",
		}
		connect(t, conn, full)
		connect(t, conn, named("c"))
		connect(t, conn, named("a"))
		time.Sleep(3*time.Second + 123456700*time.Nanosecond)
		if _, err := client.ConnectionKeepAlive(t.Context(), &clientspb.ConnectionKeepAlive{ConnectionId: "b"}); err != nil {
			t.Fatalf("keep-alive: %v", err)
		}
		time.Sleep(time.Second)
		got, err := client.GetConnectedClients(t.Context(), &emptypb.Empty{})
		if err != nil {
			t.Fatalf("GetConnectedClients: %v", err)
		}
		at := func(text string) *clientspb.SerializableDateTimeOffset {
			return &clientspb.SerializableDateTimeOffset{Value: text}
		}
		want := &clientspb.IEnumerable_ConnectedClient{Items: []*clientspb.ConnectedClient{
			{ConnectionId: "a", SiloAddress: "node1", LastSeen: at("2000-01-01T00:00:00.0000000+00:00")},
			{
				ConnectionId: "b", SiloAddress: "node1", LastSeen: at("2000-01-01T00:00:03.1234567+00:00"), Version: "1.2",
				IsRunningWithDebugger: true, ProcessId: 7, ProcessPath: "/bin/x", MachineName: "host", ClientType: "Go",
			},
			{ConnectionId: "c", SiloAddress: "node1", LastSeen: at("2000-01-01T00:00:00.0000000+00:00")},
		}}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("clients (-want +got):\n%s", diff)
		}
	})
}

func TestServerWithoutANameIsListedByAddress(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			f := serveTCP(t, transport.config)
			conn := f.grpcConn(t)
			connect(t, conn, named("a"))
			got, err := clientspb.NewConnectionServiceClient(conn).GetConnectedClients(t.Context(), &emptypb.Empty{})
			if err != nil || len(got.GetItems()) != 1 || got.GetItems()[0].GetSiloAddress() != f.addr {
				t.Errorf("got %v, %v, want one client of %s", got, err, f.addr)
			}
		})
	}
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{})
	conn := f.grpcConn(t)
	long := longText(10_000)
	connect(t, conn, &clientspb.ConnectRequest{ConnectionId: "a", ClientVersion: long, ProcessPath: long, MachineName: long, ClientType: long})
	got, err := clientspb.NewConnectionServiceClient(conn).GetConnectedClients(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatalf("GetConnectedClients: %v", err)
	}
	listed := got.GetItems()[0]
	for name, text := range map[string]string{
		"version": listed.GetVersion(), "path": listed.GetProcessPath(), "machine": listed.GetMachineName(), "type": listed.GetClientType(),
	} {
		if len(text) > 512 || len(text) < 510 || !utf8.ValidString(text) || !strings.HasPrefix(long, text) {
			t.Errorf("%s: got %d bytes, valid %v, want the first 512 or a little less", name, len(text), utf8.ValidString(text))
		}
	}
}

func TestClosedRegistryTellsItsClients(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		config.Registry = server.NewRegistry(server.RegistryConfig{})
		f := serveMemory(t, config)
		conn := f.grpcConn(t)
		s := connect(t, conn, named("one"))
		f.Registry().Close()
		f.Registry().Close()
		const text = "connection closing: the server is stopping"
		checkEnd(t, s, contract.ReasonClosing, text)
		synctest.Wait()
		if got := f.Registry().Count(); got != 0 {
			t.Errorf("count: got %d, want 0", got)
		}
		stream, err := clientspb.NewConnectionServiceClient(conn).Connect(t.Context(), named("two"))
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || status.Convert(err).Message() != text {
			t.Errorf("connect to a closed registry: got %v, want Unavailable, %s", err, text)
		}
	})
}

// pass lets time pass in a bubble, where it takes none.
func pass(d time.Duration) { time.Sleep(d) }

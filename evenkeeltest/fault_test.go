// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/server"
)

// quick makes keep-alives frequent.
func quick() evenkeeltest.Config {
	return evenkeeltest.Config{Servers: 1, Registry: server.RegistryConfig{KeepAliveInterval: 5 * time.Millisecond}}
}

// client returns a gRPC client of a server.
func client(t *testing.T, c *evenkeeltest.Cluster, s *evenkeeltest.Server) *grpc.ClientConn {
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
	return conn
}

// web returns an HTTP client of a cluster, which keeps its connections or not.
func web(t *testing.T, c *evenkeeltest.Cluster, keep bool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: c.TLS(), DisableKeepAlives: !keep, ForceAttemptHTTP2: keep}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get asks for a count and returns the answer in one line.
func get(ctx context.Context, client *http.Client, s *evenkeeltest.Server) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.Addr()+"/connections/count", nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(answer.Body)
	return fmt.Sprintf("%d %s %s", answer.StatusCode, answer.Header.Get("Content-Type"), body), errors.Join(err, answer.Body.Close())
}

func TestFaultsOfTheCount(t *testing.T) {
	t.Parallel()
	const right = "200 application/json; charset=utf-8 1"
	tests := []struct {
		name  string
		fault evenkeeltest.HTTPFault
		want  string
	}{
		{"HTML", evenkeeltest.HTMLPage(), "200 text/html; charset=utf-8 <!doctype html>"},
		{"a lie", evenkeeltest.CountOf(4711), "200 application/json; charset=utf-8 4711"},
		{"a status", evenkeeltest.HTTPFault{Status: 503}, "503  "},
		{"slow", evenkeeltest.HTTPFault{Delay: 30 * time.Millisecond}, right},
		{"slow lie", evenkeeltest.HTTPFault{Delay: time.Millisecond, Body: "7", ContentType: "x/y"}, "200 x/y 7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
			s := c.Servers[0]
			connect(t, c, s, "one")
			asker := web(t, c, false)
			for _, step := range []struct{ fault, want string }{{"before", right}, {"with the fault", tt.want}, {"after", right}} {
				if step.fault == "with the fault" {
					s.SetFault(evenkeeltest.Fault{Count: tt.fault})
				} else {
					s.ClearFaults()
				}
				began := time.Now()
				got, err := get(patient(t), asker, s)
				if err != nil || !strings.HasPrefix(got, step.want) {
					t.Errorf("%s: got %q, %v, want %q", step.fault, got, err, step.want)
				}
				if d := time.Since(began); step.fault == "with the fault" && d < tt.fault.Delay {
					t.Errorf("answer after %v, want at least %v", d, tt.fault.Delay)
				}
			}
		})
	}
}

func TestConnectionsMadeBeforeAFaultMeetItToo(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	s := c.Servers[0]
	asker := web(t, c, true)
	if _, err := get(patient(t), asker, s); err != nil {
		t.Fatal(err)
	}
	stream := connect(t, c, s, "one")
	s.SetFault(evenkeeltest.Fault{Count: evenkeeltest.CountOf(5)})
	got, err := get(patient(t), asker, s)
	for err != nil { // the connection was closed, which the client may find out the hard way
		got, err = get(patient(t), asker, s)
	}
	if want := "200 application/json; charset=utf-8 5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("the connection of a gRPC client was closed too: %v", err)
	}
}

func TestAHungCountIsAnsweredWhenTheFaultIsCleared(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	s := c.Servers[0]
	s.SetFault(evenkeeltest.Fault{Count: evenkeeltest.HTTPFault{Hang: true}})
	for _, keep := range []bool{false, true} { // HTTP/1.1 and HTTP/2
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if got, err := get(ctx, web(t, c, keep), s); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("HTTP/2 %v: got %q, %v, want no answer in time", keep, got, err)
		}
		cancel()
	}
	answers := make(chan string, 1)
	asker := web(t, c, false)
	before := s.AcceptedConnections()
	go func() {
		got, err := get(patient(t), asker, s)
		answers <- fmt.Sprint(got, err)
	}()
	for s.AcceptedConnections() == before {
		select {
		case got := <-answers:
			t.Fatalf("got %s, want no answer before the fault is cleared", got)
		default:
		}
	}
	s.ClearFaults()
	if got, want := <-answers, "200 application/json; charset=utf-8 0<nil>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFaultsOfReserve(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	s := c.Servers[0]
	reserve := func(ctx context.Context, body io.Reader) (int, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+s.Addr()+"/connections/reserve", body)
		if err != nil {
			return 0, err
		}
		answer, err := web(t, c, false).Do(request)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	s.SetFault(evenkeeltest.Fault{Reserve: evenkeeltest.HTTPFault{Status: 429}})
	if got, err := reserve(patient(t), nil); err != nil || got != 429 || s.Count() != 0 {
		t.Errorf("refused: got %d, %v, count %d, want 429 and nothing reserved", got, err, s.Count())
	}
	s.SetFault(evenkeeltest.Fault{Reserve: evenkeeltest.HTTPFault{Abort: true}})
	if got, err := reserve(patient(t), nil); err == nil {
		t.Errorf("broken off: got %d, want an error", got)
	}
	s.SetFault(evenkeeltest.Fault{Reserve: evenkeeltest.HTTPFault{Hang: true}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got, err := reserve(ctx, strings.NewReader("{}")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hung: got %d, %v, want no answer in time", got, err)
	}
	// The hung request must not keep the server from being killed.
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	s.ClearFaults()
	if got, err := reserve(patient(t), nil); err != nil || got != 200 || s.Count() != 1 {
		t.Errorf("after: got %d, %v, count %d, want 200 and one reserved", got, err, s.Count())
	}
}

func TestConnectionsThatAreResetOrSilent(t *testing.T) {
	t.Parallel()
	for _, plaintext := range []bool{false, true} {
		c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Plaintext: plaintext})
		s := c.Servers[0]
		for name, fault := range map[string]evenkeeltest.Fault{
			"reset": {Reset: true}, "silent": {Silent: true}, "silent after TLS": {SilentAfterTLS: true},
		} {
			s.SetFault(fault)
			conn, err := net.Dial("tcp", s.Addr())
			if fault.Reset && errors.Is(err, syscall.ECONNRESET) {
				continue // reset before the dialer looked again
			}
			if err != nil {
				t.Fatalf("%s: dial: %v", name, err)
			}
			if fault.SilentAfterTLS && !plaintext {
				secure := tls.Client(conn, withServerName(c.TLS()))
				if err := secure.HandshakeContext(patient(t)); err != nil {
					t.Errorf("%s: handshake: %v", name, err)
				}
				conn = secure
			}
			_, werr := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
			if err := conn.SetReadDeadline(time.Now().Add(30 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			_, err = conn.Read(make([]byte, 1))
			var netErr net.Error
			silent := errors.As(err, &netErr) && netErr.Timeout()
			reset := errors.Is(err, syscall.ECONNRESET) || errors.Is(werr, syscall.ECONNRESET) || errors.Is(werr, syscall.EPIPE)
			if fault.Reset && !reset || !fault.Reset && !silent {
				t.Errorf("%s: read gives %v after write %v", name, err, werr)
			}
			_ = conn.Close()
		}
	}
}

func withServerName(config *tls.Config) *tls.Config {
	config.ServerName = "localhost"
	return config
}

// recvError receives until the stream ends.
func recvError(stream grpc.ServerStreamingClient[clientspb.ConnectionKeepAlive]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

func TestStreamsThatEndOrAreRefused(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, quick())
	s := c.Servers[0]
	open := connect(t, c, s, "one")
	s.SetFault(evenkeeltest.Fault{RefuseConnect: codes.PermissionDenied})
	refused, err := clientspb.NewConnectionServiceClient(client(t, c, s)).Connect(patient(t), &clientspb.ConnectRequest{ConnectionId: "two"})
	if err != nil {
		t.Fatal(err)
	}
	if got := status.Code(recvError(refused)); got != codes.PermissionDenied {
		t.Errorf("new stream: got %v, want %v", got, codes.PermissionDenied)
	}
	if _, err := open.Recv(); err != nil {
		t.Errorf("open stream while new ones are refused: %v", err)
	}
	s.SetFault(evenkeeltest.Fault{EndStreams: true})
	if err := recvError(open); !errors.Is(err, io.EOF) {
		t.Errorf("open stream: got %v, want an end with OK", err)
	}
	if got := s.Count(); got != 0 {
		t.Errorf("count: got %d, want 0", got)
	}
	ended, err := clientspb.NewConnectionServiceClient(client(t, c, s)).Connect(patient(t), &clientspb.ConnectRequest{ConnectionId: "three"})
	if err != nil {
		t.Fatal(err)
	}
	if err := recvError(ended); !errors.Is(err, io.EOF) {
		t.Errorf("new stream: got %v, want an end with OK", err)
	}
	s.ClearFaults()
	connect(t, c, s, "four")
}

func TestKeepAlivesThatAreForeignOrMissing(t *testing.T) {
	t.Parallel()
	config := quick()
	config.Registry.StaleAfter = 100 * time.Millisecond
	c := evenkeeltest.Start(t, config)
	s := c.Servers[0]
	stream := connect(t, c, s, "one")
	s.SetFault(evenkeeltest.Fault{WrongID: true})
	for id := "one"; id == "one"; {
		keepAlive, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		id = keepAlive.GetConnectionId()
	}
	s.SetFault(evenkeeltest.Fault{NoKeepAlives: true})
	// The client answers nothing and is evicted, of which it is not told.
	if err := s.WaitCount(patient(t), 0); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- recvError(stream) }()
	quiet := time.NewTimer(50 * time.Millisecond)
	defer quiet.Stop()
	select {
	case err := <-ended:
		t.Errorf("the stream ended with %v, want silence", err)
	case <-quiet.C:
		s.ClearFaults()
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ended with %v, want the eviction", err)
		}
	}
}

func TestForgottenClientsAreNotToldOfIt(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, quick())
	s := c.Servers[0]
	conn := client(t, c, s)
	service := clientspb.NewConnectionServiceClient(conn)
	stream := connect(t, c, s, "one")
	s.SetFault(evenkeeltest.Fault{ForgetClients: true})
	if err := s.WaitCount(patient(t), 0); err != nil {
		t.Fatal(err)
	}
	late := connect(t, c, s, "two") // forgotten at once
	if err := s.WaitCount(patient(t), 0); err != nil {
		t.Fatal(err)
	}
	s.ClearFaults() // that brings nobody back
	for range 20 {
		for id, ghost := range map[string]grpc.ServerStreamingClient[clientspb.ConnectionKeepAlive]{"one": stream, "two": late} {
			if keepAlive, err := ghost.Recv(); err != nil || keepAlive.GetConnectionId() != id {
				t.Fatalf("%s: got %v, %v, want keep-alives to go on", id, keepAlive, err)
			}
		}
		if _, err := service.ConnectionKeepAlive(patient(t), &clientspb.ConnectionKeepAlive{ConnectionId: "one"}); err != nil {
			t.Fatalf("answer: %v", err)
		}
	}
	if list, err := service.GetConnectedClients(patient(t), &emptypb.Empty{}); err != nil || len(list.GetItems()) != 0 {
		t.Errorf("list: got %v, %v, want nobody", list, err)
	}
	s.SetFault(evenkeeltest.Fault{EndStreams: true})
	if err := recvError(stream); !errors.Is(err, io.EOF) {
		t.Errorf("stream of a forgotten client: got %v, want an end with OK", err)
	}
}

func TestAnswersThatHangOrFail(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	s := c.Servers[0]
	service := clientspb.NewConnectionServiceClient(client(t, c, s))
	answer := func(ctx context.Context) error {
		_, err := service.ConnectionKeepAlive(ctx, &clientspb.ConnectionKeepAlive{ConnectionId: "one"})
		return err
	}
	if err := answer(patient(t)); err != nil {
		t.Fatal(err)
	}
	s.SetFault(evenkeeltest.Fault{FailAnswers: codes.Internal})
	if err := answer(patient(t)); status.Code(err) != codes.Internal {
		t.Errorf("failing: got %v, want Internal", err)
	}
	s.SetFault(evenkeeltest.Fault{HangAnswers: true})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := answer(ctx); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("hanging: got %v, want DeadlineExceeded", err)
	}
	answered := make(chan error, 1)
	go func() { answered <- answer(patient(t)) }()
	s.ClearFaults()
	if err := <-answered; err != nil {
		t.Errorf("after the fault: %v", err)
	}
}

func TestConnectionsThatGetGoAway(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, quick())
	s := c.Servers[0]
	s.SetFault(evenkeeltest.Fault{GoAwayAfter: 50 * time.Millisecond})
	conn := client(t, c, s)
	stream, err := clientspb.NewConnectionServiceClient(conn).Connect(patient(t), &clientspb.ConnectRequest{ConnectionId: "one"}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	for conn.GetState() != connectivity.Ready {
		conn.WaitForStateChange(patient(t), conn.GetState())
	}
	if !conn.WaitForStateChange(patient(t), connectivity.Ready) {
		t.Error("no GOAWAY came")
	}
	for range 50 { // what runs goes on
		if _, err := stream.Recv(); err != nil {
			t.Fatalf("stream after GOAWAY: %v", err)
		}
	}
	if got := s.Count(); got != 1 {
		t.Errorf("count: got %d, want 1: the registry is the server's own", got)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := status.Code(recvError(stream)); got != codes.Unavailable {
		t.Errorf("stream after the kill: got %v, want Unavailable", got)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := s.Fault().GoAwayAfter; got == 0 {
		t.Error("the fault is gone after a restart")
	}
	s.ClearFaults()
	connect(t, c, s, "two")
}

func TestPlaintextServersHaveFaultsToo(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Plaintext: true})
	s := c.Servers[0]
	s.SetFault(evenkeeltest.Fault{Count: evenkeeltest.CountOf(12)})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get("http://" + s.Addr() + "/connections/count")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil || string(body) != "12" {
		t.Errorf("count: got %q, %v, want 12", body, err)
	}
}

func TestConnectionsAreCountedOverAllLives(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	s := c.Servers[0]
	connect(t, c, s, "one")
	if open, accepted := s.OpenConnections(), s.AcceptedConnections(); open != 1 || accepted != 1 {
		t.Errorf("got %d open and %d accepted, want 1 and 1", open, accepted)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if open := s.OpenConnections(); open != 0 {
		t.Errorf("got %d open connections to a killed server, want 0", open)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	connect(t, c, s, "two")
	if got := s.AcceptedConnections(); got < 2 {
		t.Errorf("got %d accepted, want those of both lives", got)
	}
}

// Connections are admitted while the server dies: all of them end with it. The race detector looks at who waits for whom.
func TestKillEndsConnectionsThatBecomeSilentMeanwhile(t *testing.T) {
	t.Parallel()
	for _, fault := range []evenkeeltest.Fault{{Silent: true}, {SilentAfterTLS: true}} {
		c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
		s := c.Servers[0]
		s.SetFault(fault)
		ctx, cancel := context.WithCancel(t.Context())
		var dialling sync.WaitGroup
		for range 4 {
			dialling.Go(func() {
				for ctx.Err() == nil {
					if conn, err := net.Dial("tcp", s.Addr()); err == nil {
						_ = conn.Close() // reset by the server, or silent
					}
				}
			})
		}
		for range 100 {
			if err := s.Restart(); err != nil {
				t.Errorf("restart: %v", err)
			}
		}
		cancel()
		dialling.Wait()
	}
}

func TestFaultsOfTheContract(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, quick())
	service := clientspb.NewConnectionServiceClient(client(t, c, c.Servers[0]))
	check := func(ctx context.Context) string {
		answer, err := service.CheckCompatibility(ctx, &clientspb.CompatibilityRequest{})
		return fmt.Sprint(status.Code(err), answer.GetIsCompatible(), answer.GetIncompatibilities())
	}
	describe := func() string {
		answer, err := service.GetDescriptorSet(t.Context(), &emptypb.Empty{})
		return fmt.Sprint(status.Code(err), strings.Count(answer.GetSchemaDefinition(), "rpc ConnectionKeepAlive"))
	}
	tests := []struct {
		name            string
		fault           evenkeeltest.ContractFault
		check, describe string
	}{
		{"none", evenkeeltest.ContractFault{}, "OK true []", "Unimplemented 0"},
		{"incompatible", evenkeeltest.ContractFault{Incompatible: "x: gone"}, "OK false [x: gone]", "Unimplemented 0"},
		{"older", evenkeeltest.OlderContract(), "Unimplemented false []", "OK 1"},
		{"oldest", evenkeeltest.OldestContract(), "Unimplemented false []", "OK 0"},
		{"older without a text", evenkeeltest.ContractFault{Older: true}, "Unimplemented false []", "Unimplemented 0"},
	}
	for _, tt := range tests {
		c.Servers[0].SetFault(evenkeeltest.Fault{Contract: tt.fault})
		if got := check(t.Context()); got != tt.check {
			t.Errorf("%s: CheckCompatibility answers %s, want %s", tt.name, got, tt.check)
		}
		if got := describe(); got != tt.describe {
			t.Errorf("%s: GetDescriptorSet answers %s, want %s", tt.name, got, tt.describe)
		}
	}
	c.Servers[0].SetFault(evenkeeltest.Fault{Contract: evenkeeltest.ContractFault{Hang: true}})
	hung, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got, want := check(hung), "DeadlineExceeded false []"; got != want {
		t.Errorf("hanging: got %s, want %s", got, want)
	}
	answered := make(chan string, 1)
	go func() { answered <- check(t.Context()) }()
	c.Servers[0].ClearFaults()
	if got, want := <-answered, "OK true []"; got != want {
		t.Errorf("once cleared: got %s, want %s", got, want)
	}
}

func TestStockAnswers(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, quick())
	s := c.Servers[0]
	prober, err := balance.NewProber(balance.ProberConfig{TLS: c.TLS()})
	if err != nil {
		t.Fatal(err)
	}
	defer prober.Close() //nolint:errcheck // it returns none
	for name, tt := range map[string]struct {
		fault evenkeeltest.Fault
		stock bool
	}{
		"ours":                  {fault: evenkeeltest.Fault{}},
		"ours, after a wait":    {fault: evenkeeltest.Fault{Count: evenkeeltest.HTTPFault{Delay: time.Millisecond}}},
		"a stock server's":      {fault: evenkeeltest.Fault{StockHTTP: true}, stock: true},
		"the same after a wait": {fault: evenkeeltest.Fault{StockHTTP: true, Reserve: evenkeeltest.HTTPFault{Delay: time.Millisecond}}, stock: true},
	} {
		s.SetFault(tt.fault)
		before := s.Count()
		count, err := prober.Count(patient(t), s.Endpoint())
		if err != nil || count.Connections != before || (count.Load == nil) != tt.stock {
			t.Errorf("%s: count is %+v, %v, want %d, and more unless it is a stock server: %v", name, count, err, before, tt.stock)
		}
		made, err := prober.Reserve(patient(t), s.Endpoint(), balance.ReserveRequest{Identify: true, Bound: 1000})
		if err != nil || !made.Made || (made.ID == "") != tt.stock || s.Count() != before+1 {
			t.Errorf("%s: reservation is %+v, %v, count %d, want one, with an id unless it is a stock server: %v", name, made, err, s.Count(), tt.stock)
		}
		if tt.stock {
			continue
		}
		if err := prober.Release(patient(t), s.Endpoint(), made.ID); err != nil || s.Count() != before {
			t.Errorf("%s: after the release: %v, count %d, want %d", name, err, s.Count(), before)
		}
	}
}

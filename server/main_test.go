// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/internal/memnet"
	"github.com/evenkeel-go/evenkeel/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test on real sockets waits for; nothing takes as long unless it is broken.
const patience = 20 * time.Second

// fixture is a server that is served, and what is needed to reach it: on a real socket, or in memory for tests on a fake
// clock.
type fixture struct {
	*server.Server
	addr  string
	roots *x509.CertPool // nil in plaintext
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
}

// serveTCP serves a configuration on a free port of 127.0.0.1.
func serveTCP(t *testing.T, config server.Config) *fixture {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	f := serve(t, config, listener)
	f.dial = new(net.Dialer).DialContext
	return f
}

// serveMemory serves a configuration on a connection in memory, on which time is fake in a synctest bubble. Before it
// serves, the server is given to the functions.
func serveMemory(t *testing.T, config server.Config, before ...func(*server.Server)) *fixture {
	t.Helper()
	listener := memnet.Listen()
	f := serve(t, config, listener, before...)
	f.addr = "localhost:35000"
	f.dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
	return f
}

func serve(t *testing.T, config server.Config, listener net.Listener, before ...func(*server.Server)) *fixture {
	t.Helper()
	f := &fixture{addr: listener.Addr().String()}
	if !config.Plaintext && config.TLS == nil && config.CertFile == "" {
		certificate, err := devcert.New()
		if err != nil {
			t.Fatalf("make a certificate: %v", err)
		}
		config.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
		f.roots = x509.NewCertPool()
		f.roots.AddCert(certificate.Leaf)
	}
	s, err := server.New(config)
	if err != nil {
		t.Fatalf("new server: %v", err)
	}
	f.Server = s
	for _, prepare := range before {
		prepare(s)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: got %v, want none after Close", err)
		}
	})
	return f
}

// from returns the same server as it is reached from another address of this machine.
func (f *fixture) from(addr string) *fixture {
	elsewhere := *f
	elsewhere.dial = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}).DialContext
	return &elsewhere
}

// grpcConn returns a gRPC channel to the server, connected by f.dial.
func (f *fixture) grpcConn(t *testing.T, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	transport := insecure.NewCredentials()
	if f.roots != nil {
		transport = credentials.NewTLS(&tls.Config{RootCAs: f.roots, ServerName: "localhost"})
	}
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return f.dial(ctx, "tcp", addr) }),
	}, options...)
	conn, err := grpc.NewClient("passthrough:///"+f.addr, options...)
	if err != nil {
		t.Fatalf("new gRPC client: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // a test may have closed it
	return conn
}

// httpClient returns an HTTP client of the given version, 1 or 2, whose connections end with the test.
func (f *fixture) httpClient(t *testing.T, version int) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == 1)
	// A client that speaks both is what HTTP/2 clients are: one that offered h2 alone would be taken for gRPC.
	if version == 2 && f.roots != nil {
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
	}
	protocols.SetUnencryptedHTTP2(version == 2 && f.roots == nil)
	transport := &http.Transport{
		Protocols:       protocols,
		DialContext:     f.dial,
		TLSClientConfig: &tls.Config{RootCAs: f.roots, ServerName: "localhost"},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// url returns the URL of a path.
func (f *fixture) url(path string) string {
	if f.roots == nil {
		return "http://" + f.addr + path
	}
	return "https://" + f.addr + path
}

// answer is an HTTP answer that has been read.
type answer struct {
	*http.Response
	body string
}

// do sends a request and reads the answer.
func do(t *testing.T, client *http.Client, method, url string, body io.Reader) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatalf("new request: %v", err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read the answer to %s %s: %v", method, url, err)
	}
	if err := response.Body.Close(); err != nil {
		t.Errorf("close the answer to %s %s: %v", method, url, err)
	}
	return answer{response, string(text)}
}

// reserve makes a reservation and returns the status.
func (f *fixture) reserve(t *testing.T, client *http.Client) int {
	t.Helper()
	return do(t, client, http.MethodPost, f.url("/connections/reserve"), nil).StatusCode
}

// count asks for the count as a client does.
func (f *fixture) count(t *testing.T, client *http.Client) int {
	t.Helper()
	text := do(t, client, http.MethodGet, f.url("/connections/count"), nil).body
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("count: got %q, want a number", text)
	}
	return n
}

// session is a client's Connect stream, received from in a goroutine of its own.
type session struct {
	cancel context.CancelFunc
	beats  chan string // ids of the keep-alives; closed when the stream has ended
	err    error       // why, readable once beats is closed
	stream grpc.ServerStreamingClient[clientspb.ConnectionKeepAlive]
}

// connect opens a Connect stream and waits for the first keep-alive.
func connect(t *testing.T, conn *grpc.ClientConn, request *clientspb.ConnectRequest) *session {
	t.Helper()
	return connectFrom(t.Context(), t, conn, request)
}

// connectFrom is connect with the metadata of a context.
func connectFrom(ctx context.Context, t *testing.T, conn *grpc.ClientConn, request *clientspb.ConnectRequest) *session {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	stream, err := clientspb.NewConnectionServiceClient(conn).Connect(ctx, request)
	if err != nil {
		cancel()
		t.Fatalf("connect: %v", err)
	}
	s := &session{cancel: cancel, beats: make(chan string, 4096), stream: stream}
	go func() {
		defer close(s.beats)
		for {
			keepAlive, err := stream.Recv()
			if err != nil {
				s.err = err
				return
			}
			s.beats <- keepAlive.GetConnectionId()
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = s.wait() // the test's own doing
	})
	if id, ok := <-s.beats; !ok || id != request.GetConnectionId() {
		t.Fatalf("first keep-alive: got id %q, stream %v, want %q", id, s.err, request.GetConnectionId())
	}
	return s
}

// wait reads until the stream has ended and returns its error.
func (s *session) wait() error {
	for range s.beats {
	}
	return s.err
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("waited %v in vain for: %s", patience, what)
		}
	}
}

// named is a request with an id and nothing else.
func named(id string) *clientspb.ConnectRequest {
	return &clientspb.ConnectRequest{ConnectionId: id}
}

// longText is a text of n bytes that ends in the middle of a two-byte character wherever it is cut at an even length.
func longText(n int) string {
	return "x" + strings.Repeat("é", n/2)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/memnet"
)

// protocol is how a test server and its prober speak to each other.
type protocol string

const (
	http1 protocol = "HTTP/1.1"
	http2 protocol = "HTTP/2.0"
	h2c   protocol = "HTTP/2.0 without TLS"
)

var protocols = []protocol{http1, http2, h2c}

// testServer is a server on a loopback address that counts its connections.
type testServer struct {
	*httptest.Server

	addr netip.AddrPort

	mu    sync.Mutex
	conns int // accepted in all
	open  int
	most  int             // open at a time
	calls []*http.Request // in order
}

// unstarted returns a server that is not listening yet. The certificate is that of httptest: for example.com and the
// loopback addresses.
func unstarted(p protocol, handler http.HandlerFunc) *testServer {
	s := &testServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.calls = append(s.calls, r)
		s.mu.Unlock()
		handler(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch state {
		case http.StateNew:
			s.conns++
			s.open++
			s.most = max(s.most, s.open)
		case http.StateClosed, http.StateHijacked:
			s.open--
		}
	}
	s.EnableHTTP2 = p == http2
	if p == h2c {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
	}
	return s
}

func (s *testServer) start(t *testing.T, p protocol) *testServer {
	t.Helper()
	if p == h2c {
		s.Start()
	} else {
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	if addr, ok := s.Listener.Addr().(*net.TCPAddr); ok {
		s.addr = addr.AddrPort()
	}
	return s
}

func startServer(t *testing.T, p protocol, handler http.HandlerFunc) *testServer {
	t.Helper()
	return unstarted(p, handler).start(t, p)
}

// accepted returns how many connections the server has accepted in all, and how many are open.
func (s *testServer) accepted() (all, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns, s.open
}

// mostOpen returns how many connections have been open at a time.
func (s *testServer) mostOpen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

func (s *testServer) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// endpoint names the server as example.com, for which its certificate is.
func (s *testServer) endpoint() discover.Endpoint {
	return discover.Endpoint{Host: "example.com", Port: s.addr.Port(), Addrs: []netip.AddrPort{s.addr}}
}

// trusting returns the settings of a prober that trusts the server.
func (s *testServer) trusting(p protocol) balance.ProberConfig {
	if p == h2c {
		return balance.ProberConfig{Plaintext: true}
	}
	return balance.ProberConfig{TLS: s.Client().Transport.(*http.Transport).TLSClientConfig}
}

// answering is a handler that answers a count with the body and a reservation with nothing.
func answering(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/connections/count" {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, body)
		}
	}
}

func newProber(t *testing.T, config balance.ProberConfig) *balance.HTTPProber {
	t.Helper()
	prober, err := balance.NewProber(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := prober.Close(); err != nil {
			t.Error(err)
		}
	})
	return prober
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// listen listens on a free port of a loopback address.
func listen(t *testing.T, host string) (net.Listener, netip.AddrPort) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener, listener.Addr().(*net.TCPAddr).AddrPort()
}

// refusing returns a loopback address on which nobody listens.
func refusing(t *testing.T) netip.AddrPort {
	t.Helper()
	listener, addr := listen(t, "127.0.0.1")
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return addr
}

// memory is a server and a prober that meet in memory, for tests on the fake clock.
type memory struct {
	*testServer

	prober *balance.HTTPProber
	// gate, when set, holds every dial back until it is closed.
	gate chan struct{}

	mu    sync.Mutex
	dials int
	links []*addressed // the connections, from the prober's side
}

// meet starts a server in memory and a prober that reaches it under every endpoint. Both end with the test.
func meet(t *testing.T, p protocol, handler http.HandlerFunc) *memory {
	t.Helper()
	return meetWith(t, p, handler, func(*testServer) {})
}

// meetWith does the same with a server of other settings.
func meetWith(t *testing.T, p protocol, handler http.HandlerFunc, set func(*testServer)) *memory {
	t.Helper()
	m := &memory{testServer: unstarted(p, handler)}
	set(m.testServer)
	if err := m.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	listener := memnet.Listen()
	m.Listener = listener
	m.start(t, p)
	config := balance.ProberConfig{Plaintext: p == h2c}
	if p != h2c {
		config.TLS = &tls.Config{InsecureSkipVerify: true}
	}
	m.prober = newProber(t, config)
	balance.DialForTest(m.prober, func(ctx context.Context, endpoint discover.Endpoint) (net.Conn, error) {
		m.mu.Lock()
		m.dials++
		gate := m.gate
		m.mu.Unlock()
		if gate != nil {
			select {
			case <-gate:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		conn, err := listener.DialContext(ctx)
		if err != nil {
			return nil, err
		}
		link := &addressed{Conn: conn, addr: net.TCPAddrFromAddrPort(endpoint.Addrs[0])}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.links = append(m.links, link)
		return link, nil
	})
	return m
}

func (m *memory) dialled() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dials
}

// addressed is a connection in memory that has an address, and that can go dead without either side being told.
type addressed struct {
	net.Conn
	addr   net.Addr
	dead   atomic.Bool
	closed atomic.Bool
}

func (a *addressed) Write(b []byte) (int, error) {
	if a.dead.Load() {
		return len(b), nil
	}
	return a.Conn.Write(b)
}

func (a *addressed) Close() error {
	a.closed.Store(true)
	return a.Conn.Close()
}

func (a *addressed) RemoteAddr() net.Addr { return a.addr }

// somewhere is the endpoint that tests in memory ask.
var somewhere = discover.Endpoint{Host: "example.com", Port: 1, Addrs: []netip.AddrPort{addr1}}

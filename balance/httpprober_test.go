// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/internal/need"
)

// eachProtocol runs the test against a server of each protocol.
func eachProtocol(t *testing.T, test func(t *testing.T, p protocol)) {
	t.Helper()
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		s := startServer(t, p, answering(" 42\n"))
		count, err := newProber(t, s.trusting(p)).Count(testContext(t), s.endpoint())
		if err != nil {
			t.Fatal(err)
		}
		if count.Connections != 42 || count.Addr != s.addr || count.RTT <= 0 {
			t.Errorf("got %+v, want 42 connections from %v in more than no time", count, s.addr)
		}
		if want, _, _ := strings.Cut(string(p), " "); count.Proto != want {
			t.Errorf("answered over %s, want %s", count.Proto, want)
		}
		if p == h2c {
			if count.TLS != nil {
				t.Error("plaintext has a TLS state")
			}
			return
		}
		if count.TLS == nil || !count.TLS.PeerCertificates[0].Equal(s.Certificate()) {
			t.Errorf("got TLS state %+v, want the server's certificate in it", count.TLS)
		}
	})
}

// TestAServerThatDrainsSaysSo although it gives no count.
func TestAServerThatDrainsSaysSo(t *testing.T) {
	t.Parallel()
	s := startServer(t, http2, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Evenkeel-Draining", "true")
		http.Error(w, "Draining", http.StatusServiceUnavailable)
	})
	count, err := newProber(t, s.trusting(http2)).Count(testContext(t), s.endpoint())
	if failed, ok := errors.AsType[*balance.ProbeError](err); !ok || failed.Status != http.StatusServiceUnavailable {
		t.Errorf("got error %v, want one with status 503", err)
	}
	if count.Load == nil || !count.Load.Draining {
		t.Errorf("got load %+v, want it to say that the server is draining", count.Load)
	}
}

func TestReserve(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		s := startServer(t, p, answering("0"))
		reservation, err := newProber(t, s.trusting(p)).Reserve(testContext(t), s.endpoint(), balance.ReserveRequest{})
		if err != nil || !reservation.Made {
			t.Fatalf("got %+v, %v, want a reservation", reservation, err)
		}
		request := s.requests()[0]
		if request.Method != http.MethodPost || request.URL.Path != "/connections/reserve" {
			t.Errorf("sent %s %s", request.Method, request.URL)
		}
		if got := request.Header.Get("Content-Length"); got != "0" {
			t.Errorf("content-length %q, want 0", got)
		}
	})
}

func TestReserveTakesAnyStatusOfSuccess(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{200: true, 201: true, 204: true, 302: false, 404: false, 429: false, 503: false} {
		s := startServer(t, http2, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		reservation, err := newProber(t, s.trusting(http2)).Reserve(testContext(t), s.endpoint(), balance.ReserveRequest{})
		if reservation.Made != want || (err == nil) != want {
			t.Errorf("status %d: got %+v, %v, want made: %t", status, reservation, err, want)
		}
	}
}

func TestRequestsAreTheStockOnes(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		s := startServer(t, p, answering("7"))
		if _, err := newProber(t, s.trusting(p)).Count(testContext(t), s.endpoint()); err != nil {
			t.Fatal(err)
		}
		request := s.requests()[0]
		if request.Method != http.MethodGet || request.URL.Path != "/connections/count" || request.URL.RawQuery != "" {
			t.Errorf("sent %s %s", request.Method, request.URL)
		}
		if want := s.endpoint().Addr(); request.Host != want {
			t.Errorf("host %q, want %q", request.Host, want)
		}
		if got := request.Header.Get("User-Agent"); got != "evenkeel" {
			t.Errorf("user agent %q", got)
		}
		for _, header := range []string{"Authorization", "Accept-Encoding", "Cookie"} {
			if got := request.Header.Get(header); got != "" {
				t.Errorf("sent %s: %q", header, got)
			}
		}
	})
}

func TestOneHandshakeForProbeReservationAndNextProbe(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		s := startServer(t, p, answering("7"))
		prober, ctx := newProber(t, s.trusting(p)), testContext(t)
		count, err := prober.Count(ctx, s.endpoint())
		if err != nil {
			t.Fatal(err)
		}
		pinned := s.endpoint()
		pinned.Addrs = []netip.AddrPort{count.Addr}
		if _, err := prober.Reserve(ctx, pinned, balance.ReserveRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := prober.Count(ctx, s.endpoint()); err != nil {
			t.Fatal(err)
		}
		if all, open := s.accepted(); all != 1 || open != 1 {
			t.Errorf("%d connections, %d open, want one that is", all, open)
		}
	})
}

func TestClientsShareOneConnectionFromTheStart(t *testing.T) {
	t.Parallel()
	for _, p := range []protocol{http2, h2c} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			s := startServer(t, p, answering("7"))
			countTogether(t, newProber(t, s.trusting(p)), s.endpoint(), 100)
			if all, _ := s.accepted(); all != 1 {
				t.Errorf("%d connections for 100 clients, want 1", all)
			}
		})
	}
}

// countTogether makes n clients count at the same time and reports those that fail.
func countTogether(t *testing.T, prober balance.Prober, endpoint discover.Endpoint, n int) {
	t.Helper()
	ctx := testContext(t)
	start := make(chan struct{})
	var clients sync.WaitGroup
	for range n {
		clients.Go(func() {
			<-start
			if count, err := prober.Count(ctx, endpoint); err != nil || count.Connections != 7 {
				t.Errorf("got %+v, %v, want 7", count, err)
			}
		})
	}
	close(start)
	clients.Wait()
}

func TestCountGoesToAnAddressWithAConnection(t *testing.T) {
	t.Parallel()
	s, other := startServer(t, http2, answering("7")), startServer(t, http2, answering("9"))
	prober, ctx := newProber(t, s.trusting(http2)), testContext(t)
	endpoint := discover.Endpoint{Host: "example.com", Port: 1, Addrs: []netip.AddrPort{refusing(t), s.addr}}
	if count, err := prober.Count(ctx, endpoint); err != nil || count.Addr != s.addr {
		t.Fatalf("got %+v, %v, want an answer from %v", count, err, s.addr)
	}
	endpoint.Addrs = []netip.AddrPort{other.addr, s.addr}
	if count, err := prober.Count(ctx, endpoint); err != nil || count.Addr != s.addr {
		t.Errorf("got %+v, %v, want %v again: there is a connection to it", count, err, s.addr)
	}
	endpoint.Addrs = []netip.AddrPort{other.addr}
	if count, err := prober.Count(ctx, endpoint); err != nil || count.Addr != other.addr || count.Connections != 9 {
		t.Errorf("got %+v, %v, want %v: the only address left", count, err, other.addr)
	}
}

func TestCountLooksTheNameUpEveryTime(t *testing.T) {
	t.Parallel()
	const name = "example.com"
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	server.SetAddrs(name, netip.MustParseAddr("127.0.0.1"))
	s := startServer(t, http2, answering("7"))
	config := s.trusting(http2)
	config.Resolver = &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, network, server.Addr())
		},
	}
	prober, ctx := newProber(t, config), testContext(t)
	endpoint := discover.Endpoint{Host: name, Port: s.addr.Port(), Absolute: true}
	for want := 1; want <= 3; want++ {
		count, err := prober.Count(ctx, endpoint)
		if err != nil || count.Addr != s.addr {
			t.Fatalf("got %+v, %v, want an answer from %v", count, err, s.addr)
		}
		if got := server.Count(name, "A"); got != want {
			t.Errorf("%d lookups after %d counts", got, want)
		}
	}
	if all, _ := s.accepted(); all != 1 {
		t.Errorf("%d connections, want 1", all)
	}
	server.Remove(name)
	if _, err := prober.Count(ctx, endpoint); err == nil || !strings.Contains(err.Error(), "look up "+name) {
		t.Errorf("got %v, want a lookup that failed", err)
	}
}

func TestNameCheckAndSNIUseTheHost(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked string
	s := unstarted(http2, answering("7"))
	s.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = hello.ServerName
		return nil, nil
	}}
	s.start(t, http2)
	prober := newProber(t, s.trusting(http2))
	if _, err := prober.Count(testContext(t), s.endpoint()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if asked != "example.com" {
		t.Errorf("the server was asked for %q, want the host", asked)
	}
}

func TestHostsThatAreAddresses(t *testing.T) {
	t.Parallel()
	s := startServer(t, http2, answering("7"))
	config := s.trusting(http2)
	config.TLS = config.TLS.Clone()
	config.TLS.InsecureSkipVerify = true // the certificate is not for link-local addresses
	prober, ctx := newProber(t, config), testContext(t)
	for host, want := range map[string]string{
		"::1":          "[::1]:35000",
		"fe80::1%eth0": "[fe80::1]:35000",
		"10.0.0.1":     "10.0.0.1:35000",
	} {
		endpoint := discover.Endpoint{Host: host, Port: 35000, Addrs: []netip.AddrPort{s.addr}}
		if _, err := prober.Count(ctx, endpoint); err != nil {
			t.Fatal(err)
		}
		requests := s.requests()
		if got := requests[len(requests)-1].Host; got != want {
			t.Errorf("host %q for %q, want %q", got, host, want)
		}
	}
}

func TestCountOnIPv6(t *testing.T) {
	t.Parallel()
	need.IPv6(t)
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	s := unstarted(http2, answering("7"))
	_ = s.Listener.Close()
	s.Listener = listener
	s.start(t, http2)
	count, err := newProber(t, s.trusting(http2)).Count(testContext(t), discover.Endpoint{Host: "::1", Port: s.addr.Port()})
	if err != nil || count.Addr != s.addr {
		t.Errorf("got %+v, %v, want an answer from %v", count, err, s.addr)
	}
}

func TestAConnectionThatTheServerClosedIsReplaced(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		s := startServer(t, p, answering("7"))
		prober, ctx := newProber(t, s.trusting(p)), testContext(t)
		for round := range 20 {
			if _, err := prober.Count(ctx, s.endpoint()); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			s.CloseClientConnections()
		}
	})
}

func TestServersThatSayCloseAreAskedAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t, http1, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "7")
	})
	prober, ctx := newProber(t, s.trusting(http1)), testContext(t)
	for range 3 {
		if _, err := prober.Count(ctx, s.endpoint()); err != nil {
			t.Fatal(err)
		}
	}
	if all, _ := s.accepted(); all != 3 {
		t.Errorf("%d connections, want 3", all)
	}
}

func TestProberConfig(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config balance.ProberConfig
		want   []string
	}{
		{"zero", balance.ProberConfig{}, nil},
		{"plaintext", balance.ProberConfig{Plaintext: true}, nil},
		{"TLS 1.3 only", balance.ProberConfig{TLS: &tls.Config{MinVersion: tls.VersionTLS13}}, nil},
		{"plaintext with TLS", balance.ProberConfig{Plaintext: true, TLS: &tls.Config{}}, []string{"plaintext prober has no TLS settings"}},
		{"TLS 1.1", balance.ProberConfig{TLS: &tls.Config{MinVersion: tls.VersionTLS11}}, []string{"TLS 1.1 is not allowed"}},
		{"all faults at once", balance.ProberConfig{Plaintext: true, TLS: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}}, []string{"plaintext", "TLS 1.0", "TLS 1.1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			prober, err := balance.NewProber(test.config)
			if len(test.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if err := prober.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestTheConfigIsCopied(t *testing.T) {
	t.Parallel()
	s := startServer(t, http2, answering("7"))
	config := s.trusting(http2)
	config.TLS = config.TLS.Clone()
	prober := newProber(t, config)
	config.TLS.RootCAs = nil
	if _, err := prober.Count(testContext(t), s.endpoint()); err != nil {
		t.Errorf("a later change of the caller's config has an effect: %v", err)
	}
	if len(config.TLS.NextProtos) != 0 || config.TLS.ServerName != "" {
		t.Errorf("the prober changed the caller's config: %v, %q", config.TLS.NextProtos, config.TLS.ServerName)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	s := unstarted(http1, answering("7"))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	s.start(t, http1)
	_, err := newProber(t, s.trusting(http1)).Count(testContext(t), s.endpoint())
	if err == nil || !strings.Contains(err.Error(), "TLS handshake") {
		t.Errorf("got %v, want a failed TLS handshake", err)
	}
}

func BenchmarkCount(b *testing.B) {
	for _, p := range protocols {
		b.Run("protocol="+strings.ReplaceAll(string(p), " ", "-"), func(b *testing.B) {
			s := unstarted(p, answering("7"))
			if p == h2c {
				s.Start()
			} else {
				s.StartTLS()
			}
			defer s.Close()
			s.addr = s.Listener.Addr().(*net.TCPAddr).AddrPort()
			prober, err := balance.NewProber(s.trusting(p))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = prober.Close() }()
			endpoint := s.endpoint()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := prober.Count(ctx, endpoint); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

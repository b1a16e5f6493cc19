// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// marker is something that hostile servers send and that no error may show.
const marker = "SERVER-SENT-THIS"

// checkProbeError checks what every failed probe has in common.
func checkProbeError(t *testing.T, err error, endpoint discover.Endpoint, op string) {
	t.Helper()
	_ = probeError(t, err, endpoint, op)
}

// probeError checks what every failed probe has in common and returns the error.
func probeError(t *testing.T, err error, endpoint discover.Endpoint, op string) *balance.ProbeError {
	t.Helper()
	failed, ok := errors.AsType[*balance.ProbeError](err)
	if !ok {
		t.Fatalf("got %v, want a *ProbeError", err)
	}
	if failed.Endpoint.Addr() != endpoint.Addr() || failed.Op != op {
		t.Errorf("error of %s %s, want %s %s", failed.Op, failed.Endpoint, op, endpoint)
	}
	text := err.Error()
	if !strings.HasPrefix(text, op+" "+endpoint.Addr()) {
		t.Errorf("error %q does not begin with the operation and the endpoint", text)
	}
	if strings.Contains(text, marker) || len(text) > 400 || strings.ContainsAny(text, "\n\x1b") {
		t.Errorf("error shows what the server sent: %q", text)
	}
	return failed
}

func TestAnswersThatAreNoCount(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		handler http.HandlerFunc
		status  int
		text    string
	}{
		{"not found", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, marker, http.StatusNotFound) }, 404, "status 404 Not Found"},
		{"draining", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "7", http.StatusServiceUnavailable) }, 503, "status 503 Service Unavailable"},
		{"another status of success", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, 204, "status 204 No Content"},
		{"a status that nobody knows", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(799) }, 799, "status 799"},
		{"a page", answering("<html>" + marker + "</html>"), 200, "not a count"},
		{"empty", answering(""), 200, "not a count"},
		{"a negative number", answering("-1"), 200, "not a count"},
		{"a plus sign", answering("+5"), 200, "not a count"},
		{"hexadecimal", answering("0x5"), 200, "not a count"},
		{"an exponent", answering("1e3"), 200, "not a count"},
		{"a fraction", answering("5.0"), 200, "not a count"},
		{"too large", answering("99999999999999999999"), 200, "not a count"},
		{"65 bytes", answering("5" + strings.Repeat(" ", 64)), 200, "not a count"},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, strings.Repeat("5", 4096)); err != nil {
					return
				}
			}
		}, 200, "not a count"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eachProtocol(t, func(t *testing.T, p protocol) {
				s := startServer(t, p, test.handler)
				count, err := newProber(t, s.trusting(p)).Count(testContext(t), s.endpoint())
				failed := probeError(t, err, s.endpoint(), "count")
				if failed.Status != test.status || !strings.Contains(err.Error(), test.text) {
					t.Errorf("got status %d, %q, want %d, %q", failed.Status, err, test.status, test.text)
				}
				if errors.Is(err, balance.ErrNotCount) != (test.status == 200) {
					t.Errorf("got %v, which should match ErrNotCount only for status 200", err)
				}
				if count.Addr != s.addr || failed.Addr != s.addr {
					t.Errorf("addresses %v and %v, want %v: it was connected to", count.Addr, failed.Addr, s.addr)
				}
			})
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		elsewhere := startServer(t, p, answering("7"))
		s := startServer(t, p, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		})
		prober, ctx := newProber(t, s.trusting(p)), testContext(t)
		_, err := prober.Count(ctx, s.endpoint())
		if failed := probeError(t, err, s.endpoint(), "count"); failed.Status != http.StatusTemporaryRedirect {
			t.Errorf("got status %d, want 307", failed.Status)
		}
		_, err = prober.Reserve(ctx, s.endpoint(), balance.ReserveRequest{})
		checkProbeError(t, err, s.endpoint(), "reserve")
		if all, _ := elsewhere.accepted(); all != 0 {
			t.Errorf("%d connections to where the redirect points, want none", all)
		}
	})
}

func TestServersThatDoNotComeToAnEnd(t *testing.T) {
	t.Parallel()
	handlers := map[string]http.HandlerFunc{
		"no header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a header and nothing more": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"a byte every second": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "5")
				w.(http.Flusher).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		},
	}
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachProtocol(t, func(t *testing.T, p protocol) {
				synctest.Test(t, func(t *testing.T) {
					m := meet(t, p, handler)
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					got := <-countLater(ctx, m.prober, somewhere)
					checkProbeError(t, got.err, somewhere, "count")
					if !errors.Is(got.err, context.DeadlineExceeded) || !strings.Contains(got.err.Error(), "no answer") {
						t.Errorf("got %v, want no answer before the deadline", got.err)
					}
					if got.after != 2*time.Second {
						t.Errorf("ended after %v, want 2s", got.after)
					}
					if got.count.Addr != addr1 {
						t.Errorf("address %v, want %v", got.count.Addr, addr1)
					}
				})
			})
		})
	}
}

func TestHugeHeaders(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		s := startServer(t, p, func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat(marker, 60))
			}
			_, _ = io.WriteString(w, "7")
		})
		_, err := newProber(t, s.trusting(p)).Count(testContext(t), s.endpoint())
		checkProbeError(t, err, s.endpoint(), "count")
	})
}

// talk accepts connections and hands each to speak, which owns it.
func talk(t *testing.T, speak func(net.Conn)) discover.Endpoint {
	t.Helper()
	listener, addr := listen(t, "127.0.0.1")
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer func() { _ = conn.Close() }()
				speak(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		conns.Wait()
	})
	return discover.Endpoint{Host: "example.com", Port: addr.Port(), Addrs: []netip.AddrPort{addr}}
}

func TestServersThatSpeakNoTLS(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		speak func(net.Conn)
		text  string
	}{
		{"a reset", func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.(*net.TCPConn).SetLinger(0)
		}, "TLS handshake"},
		{"an end", func(net.Conn) {}, "TLS handshake"},
		{"plain HTTP", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 400 "+marker+"\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
		}, "TLS handshake: tls: first record does not look like a TLS handshake"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			endpoint := talk(t, test.speak)
			count, err := newProber(t, balance.ProberConfig{}).Count(testContext(t), endpoint)
			checkProbeError(t, err, endpoint, "count")
			if !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %q does not say %q", err, test.text)
			}
			if count.Addr.IsValid() {
				t.Errorf("address %v, want none: there was no connection to use", count.Addr)
			}
		})
	}
}

func TestTLSSilence(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	ended := make(chan struct{})
	endpoint := talk(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1)) // the handshake has begun
		cancel()
		_, _ = io.Copy(io.Discard, conn) // ends when the prober gives up
		close(ended)
	})
	_, err := newProber(t, balance.ProberConfig{}).Count(ctx, endpoint)
	checkProbeError(t, err, endpoint, "count")
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("got %v, want no connection before the cancel", err)
	}
	select {
	case <-ended:
	case <-testContext(t).Done():
		t.Error("the handshake goes on although nobody waits for it")
	}
}

// encrypted does a TLS handshake without HTTP/2 and then lets speak say what it will.
func encrypted(t *testing.T, speak func(net.Conn)) discover.Endpoint {
	t.Helper()
	certificates := startServer(t, http1, answering("")).TLS.Certificates
	return talk(t, func(conn net.Conn) {
		secured := tls.Server(conn, &tls.Config{Certificates: certificates})
		request := make([]byte, 4096)
		if _, err := secured.Read(request); err == nil {
			speak(secured)
		}
	})
}

func TestServersThatSpeakNoHTTP(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		speak func(net.Conn)
		text  string
	}{
		{"garbage", func(conn net.Conn) { _, _ = io.WriteString(conn, marker+"\r\n\r\n") }, "no valid HTTP answer"},
		{"a status that is no number", func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 "+marker+"\r\n\r\n") }, "no valid HTTP answer"},
		{"a broken header", func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+marker+"\r\n\r\n") }, "no valid HTTP answer"},
		{"an end", func(net.Conn) {}, "closed"},
		{"an end in the middle", func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1") }, "closed"},
		{"a body with a broken length", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+marker+"\r\n")
		}, "no valid HTTP answer"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			endpoint := encrypted(t, test.speak)
			prober := newProber(t, balance.ProberConfig{TLS: &tls.Config{InsecureSkipVerify: true}})
			_, err := prober.Count(testContext(t), endpoint)
			checkProbeError(t, err, endpoint, "count")
			if !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %q does not say %q", err, test.text)
			}
		})
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	s := startServer(t, http2, answering("7"))
	trusting := s.trusting(http2)
	wrongName := s.endpoint()
	wrongName.Host = "wrong.test"
	named := trusting.TLS.Clone()
	named.ServerName = "example.com"
	skipping := &tls.Config{InsecureSkipVerify: true}
	tests := []struct {
		name     string
		config   balance.ProberConfig
		endpoint discover.Endpoint
		text     string // empty: no error
	}{
		{"trusted", trusting, s.endpoint(), ""},
		{"unknown authority", balance.ProberConfig{}, s.endpoint(), "TLS handshake: certificate signed by unknown authority: that of "},
		{"another name", trusting, wrongName, "not for wrong.test"},
		{"another name, said in the settings", balance.ProberConfig{TLS: named}, wrongName, ""},
		{"not checked", balance.ProberConfig{TLS: skipping}, wrongName, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := newProber(t, test.config).Count(testContext(t), test.endpoint)
			if test.text == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			checkProbeError(t, err, test.endpoint, "count")
			if !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %q does not say %q", err, test.text)
			}
			if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
				t.Errorf("error %q does not tell by its type that the certificate is at fault", err)
			}
		})
	}
}

func TestLongCertificateErrorsAreCut(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	for i := range 50 {
		template.DNSNames = append(template.DNSNames, fmt.Sprintf("a-rather-long-name-%d.example.com", i))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	s := unstarted(http2, answering("7"))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.start(t, http2)
	_, err = newProber(t, balance.ProberConfig{TLS: &tls.Config{RootCAs: roots}}).Count(testContext(t), s.endpoint())
	checkProbeError(t, err, s.endpoint(), "count") // checks the length
	if !strings.Contains(err.Error(), " and 45 more, not for example.com") {
		t.Errorf("error %q does not say that there are more names", err)
	}
}

func TestRefusedAndUnknown(t *testing.T) {
	t.Parallel()
	prober := newProber(t, balance.ProberConfig{})
	addr := refusing(t)
	refused := discover.Endpoint{Host: "example.com", Port: 35000, Addrs: []netip.AddrPort{addr}}
	_, err := prober.Count(testContext(t), refused)
	if checkProbeError(t, err, refused, "count"); !strings.Contains(err.Error(), addr.String()) {
		t.Errorf("error %q does not name the address %s", err, addr)
	}
	nowhere := discover.Endpoint{Port: 35000}
	_, err = prober.Reserve(testContext(t), nowhere, balance.ReserveRequest{})
	checkProbeError(t, err, nowhere, "reserve")
}

func TestAHostThatIsNoHost(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		s := startServer(t, p, answering("7"))
		config := s.trusting(p)
		if config.TLS != nil {
			config.TLS = &tls.Config{InsecureSkipVerify: true}
		}
		prober := newProber(t, config)
		bad := s.endpoint()
		bad.Host = "a b\r\nX: y"
		for range 3 { // a connection must not be lost to a request that cannot be sent
			if _, err := prober.Count(testContext(t), bad); err != nil {
				continue
			}
			for _, request := range s.requests() {
				if request.Header.Get("X") != "" {
					t.Fatal("the host became a header")
				}
			}
		}
		if _, err := prober.Count(testContext(t), s.endpoint()); err != nil {
			t.Error(err)
		}
	})
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/evenkeel-go/evenkeel/credential"
)

// realPlace is a token endpoint on a real socket.
func realPlace(t *testing.T, handler http.HandlerFunc) credential.Place {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return credential.Place{
		URL:    s.URL + credential.TokenPath,
		Client: credential.NewHTTPClient(credential.HTTPConfig{TLS: &tls.Config{RootCAs: roots}}),
	}
}

// failure is the error of a place that gives no token.
func failure(t *testing.T, p credential.Place) *credential.TokenError {
	t.Helper()
	err := at(t, newSource(t), p).Ready(t.Context())
	failed, ok := errors.AsType[*credential.TokenError](err)
	if !ok {
		t.Fatalf("Ready returned %v, want a *TokenError", err)
	}
	if text := shown(t, err); strings.Contains(text, "planted") || strings.Contains(text, planted) {
		t.Errorf("something of the answer shows in %s", text)
	}
	return failed
}

func TestATokenIsHadOverTLS(t *testing.T) {
	t.Parallel()
	p := realPlace(t, func(w http.ResponseWriter, req *http.Request) {
		if req.FormValue("client_secret") != planted || req.URL.Path != "/connect/token" || req.Method != http.MethodPost {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"real","expires_in":60}`)
	})
	wantToken(t, at(t, newSource(t), p), "real")
}

func TestHostileTokenEndpointsCostLittle(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	target := realPlace(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    credential.Reason
	}{
		{"a redirect that keeps the body", func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, target.URL, http.StatusTemporaryRedirect)
		}, credential.ReasonRedirect},
		{"an endless body", func(w http.ResponseWriter, _ *http.Request) {
			for filler := make([]byte, 4096); ; {
				if _, err := w.Write(filler); err != nil {
					return
				}
			}
		}, credential.ReasonTooLarge},
		{"1 MB of headers", func(w http.ResponseWriter, _ *http.Request) {
			for range 256 {
				w.Header().Add("X-Planted", strings.Repeat("planted ", 512))
			}
			_, _ = io.WriteString(w, `{"access_token":"a"}`)
		}, credential.ReasonMalformed},
		{"an aborted answer", func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, credential.ReasonUnreachable},
		{"an answer that is broken off in its body", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"access_token":"planted`)
			_ = http.NewResponseController(w).Flush() // the client reads on
			panic(http.ErrAbortHandler)
		}, credential.ReasonUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			got := failure(t, realPlace(t, tt.handler))
			if got.Reason != tt.want || (got.Err != nil) != (tt.want == credential.ReasonUnreachable) {
				t.Errorf("failed with %v, want %v, and its cause only where the connection broke", got, tt.want)
			}
			if d := time.Since(began); d > 4*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
	t.Cleanup(func() {
		if n := elsewhere.Load(); n != 0 {
			t.Errorf("the place that the redirect named was asked %d times, want 0", n)
		}
	})
}

// framedPlace answers a request in HTTP/2 with frames of the test's.
func framedPlace(t *testing.T, answer func(*http2.Framer) error) credential.Place {
	t.Helper()
	return rawServer(t, []string{"h2"}, func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(c, c)
		if err := f.WriteSettings(); err != nil {
			return
		}
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if frame.Header().Type == http2.FrameData && frame.Header().Flags.Has(http2.FlagDataEndStream) {
				_ = answer(f) // the test is about the other side
				return
			}
		}
	})
}

func TestARequestThatIsBrokenOffInHTTP2SaysSoAndNoMore(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*http2.Framer) error{
		"a reset":             func(f *http2.Framer) error { return f.WriteRSTStream(1, http2.ErrCodeCancel) },
		"a goodbye":           func(f *http2.Framer) error { return f.WriteGoAway(1, http2.ErrCodeInternal, []byte("planted")) },
		"a closed connection": func(*http2.Framer) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := failure(t, framedPlace(t, answer)); got.Reason != credential.ReasonUnreachable || got.Err == nil {
				t.Errorf("failed with %v, want that the connection broke, and why", got)
			}
		})
	}
}

// rawPlace answers with bytes that need not be HTTP, after it has read the request.
func rawPlace(t *testing.T, answer string) credential.Place {
	t.Helper()
	return rawServer(t, nil, func(c net.Conn) { answerRaw(c, answer) })
}

// rawServer serves one connection after the other, over TLS with these protocols.
func rawServer(t *testing.T, protocols []string, serve func(net.Conn)) credential.Place {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	certificates, roots := certified.TLS.Certificates, x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	certified.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: certificates, MinVersion: tls.VersionTLS12, NextProtos: protocols,
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serve(c)
			_ = c.Close() // the test is about the other side
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return credential.Place{
		URL:    "https://" + listener.Addr().String() + credential.TokenPath,
		Client: credential.NewHTTPClient(credential.HTTPConfig{TLS: &tls.Config{RootCAs: roots}}),
	}
}

func answerRaw(c net.Conn, answer string) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, req.Body)
	_, _ = io.WriteString(c, answer)
}

// Errors of net/http quote the line that they cannot read, and a server could put the secret there.
func TestAnAnswerThatIsNoHTTPIsNotQuoted(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"a status line":  "planted\r\n\r\n",
		"a status":       "HTTP/1.1 planted\r\n\r\n",
		"a version":      "HTTP/planted 200 OK\r\n\r\n",
		"a header":       "HTTP/1.1 200 OK\r\nplanted\r\n\r\n",
		"a length":       "HTTP/1.1 200 OK\r\nContent-Length: planted\r\n\r\n",
		"an encoding":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: planted\r\n\r\n",
		"a chunk":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nplanted\r\n",
		"a cut off body": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nplanted",
		"nothing":        "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := credential.ReasonMalformed
			if name == "a cut off body" || name == "nothing" {
				want = credential.ReasonUnreachable
			}
			if got := failure(t, rawPlace(t, answer)); got.Reason != want {
				t.Errorf("failed with %v, want %v", got, want)
			}
		})
	}
}

func TestAConnectionThatCannotBeMadeSaysWhy(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	p := credential.Place{URL: "https://" + addr + credential.TokenPath, Client: credential.NewHTTPClient(credential.HTTPConfig{})}
	got := failure(t, p)
	if _, ok := errors.AsType[*net.OpError](got); !ok || got.Reason != credential.ReasonUnreachable {
		t.Errorf("a closed port: %v, want the error of the socket", got)
	}
	p = realPlace(t, func(http.ResponseWriter, *http.Request) { t.Error("asked without trust") })
	p.Client = credential.NewHTTPClient(credential.HTTPConfig{})
	if _, ok := errors.AsType[*tls.CertificateVerificationError](failure(t, p)); !ok {
		t.Error("an unknown authority: want the error of the certificate")
	}
}

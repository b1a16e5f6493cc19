// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package dial_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/internal/dial"
)

// planted is the password of a proxy, which must show up nowhere.
const planted = "pl@nted/secret"

// proxyURL is a proxy with credentials.
func proxyURL(scheme, addr string) string { return scheme + "://user:pl%40nted%2Fsecret@" + addr }

// asked is what a proxy was asked for.
type asked struct{ method, target, authorization string }

// proxy is a proxy that gives one answer to everything and leads nowhere: after the answer it echoes. With a config it
// speaks TLS.
func proxy(t *testing.T, answer string, config *tls.Config) (addr string, requests <-chan asked) {
	t.Helper()
	listener, at := listen(t, "127.0.0.1")
	seen := make(chan asked, 8)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if config != nil {
				conn = tls.Server(conn, config)
			}
			group.Go(func() {
				defer conn.Close() //nolint:errcheck // over
				reader := bufio.NewReader(conn)
				request, err := http.ReadRequest(reader)
				if err != nil {
					return
				}
				seen <- asked{request.Method, request.RequestURI, request.Header.Get("Proxy-Authorization")}
				_, _ = io.WriteString(conn, answer)
				_, _ = io.Copy(conn, reader)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	return at.String(), seen
}

// through is a dialer that uses what the environment says.
func through(t *testing.T, url, noProxy string, config *tls.Config) dial.Dialer {
	t.Helper()
	for _, name := range []string{"https_proxy", "no_proxy", "HTTP_PROXY", "http_proxy"} {
		t.Setenv(name, "")
	}
	t.Setenv("HTTPS_PROXY", url)
	t.Setenv("NO_PROXY", noProxy)
	return dial.Dialer{Proxy: dial.ProxyFromEnvironment(config)}
}

func TestAProxyIsAskedForTheNameAndGetsItsCredentials(t *testing.T) {
	// The bytes after the header are the server's, and come in one packet with it.
	addr, requests := proxy(t, "HTTP/1.1 200 Connection established\r\nX-Filler: a\r\n\r\nhello", nil)
	dialer := through(t, proxyURL("http", addr), "", nil)
	e := discover.Endpoint{Host: "node1.test", Port: 35000, Addrs: []netip.AddrPort{refusing(t)}, Absolute: true}
	conn := mustDial(t, dialer, e)
	if _, ok := conn.(*net.TCPConn); !ok {
		t.Errorf("got a %T, want a *net.TCPConn", conn)
	}
	want := asked{"CONNECT", "node1.test:35000", "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+planted))}
	if got := <-requests; got != want {
		t.Errorf("the proxy was asked %v, want %v", got, want)
	}
	if _, err := io.WriteString(conn, " you"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("hello you"))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello you" {
		t.Errorf("read %q and %v, want all that was sent", got, err)
	}
	if !dialer.Proxied(e) {
		t.Error("Proxied says no")
	}
}

func TestInformationalAnswersOfAProxyArePassedOver(t *testing.T) {
	addr, _ := proxy(t, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhello", nil)
	conn := mustDial(t, through(t, proxyURL("http", addr), "", nil), discover.Endpoint{Host: "node1.test", Port: 1})
	got := make([]byte, len("hello"))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Errorf("read %q and %v, want what the server says", got, err)
	}
}

func TestAProxyOverTLSIsVerifiedWhateverTheServersAre(t *testing.T) {
	ca, err := devcert.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := ca.Issue("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	addr, requests := proxy(t, "HTTP/1.1 200 OK\r\n\r\n", &tls.Config{Certificates: []tls.Certificate{certificate}})
	e := discover.Endpoint{Host: "2001:db8::1", Port: 1}
	conn := mustDial(t, through(t, proxyURL("https", addr), "", &tls.Config{RootCAs: ca.Pool()}), e)
	if got := <-requests; got.target != "[2001:db8::1]:1" {
		t.Errorf("the proxy was asked for %s", got.target)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	_, err = through(t, proxyURL("https", addr), "", &tls.Config{InsecureSkipVerify: true}).Dial(testContext(t), e) //nolint:gosec // what is tested
	failed := wantProxyError(t, err, addr)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](failed); !ok {
		t.Errorf("got %v, want a refused certificate", err)
	}
	select {
	case got := <-requests:
		t.Errorf("a proxy that nobody knows was asked %v", got)
	default:
	}
}

func wantProxyError(t *testing.T, err error, addr string) *dial.ProxyError {
	t.Helper()
	failed, ok := errors.AsType[*dial.ProxyError](err)
	if !ok || failed.Proxy != addr {
		t.Fatalf("got %v, want a *ProxyError of %q", err, addr)
	}
	for _, form := range []string{planted, "pl%40nted", "user", base64.StdEncoding.EncodeToString([]byte("user:" + planted))[:20]} {
		if strings.Contains(err.Error(), form) {
			t.Errorf("%q shows the credentials", err)
		}
	}
	return failed
}

func TestWhatAProxyDoesWrong(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + planted))
	tests := []struct{ name, answer, want string }{
		{"wants other credentials", "HTTP/1.1 407 " + basic + "\r\n\r\n", ": status 407 Proxy Authentication Required"},
		{"cannot reach the server", "HTTP/1.1 502 " + planted + "\r\n\r\n", ": status 502 Bad Gateway"},
		{"redirects", "HTTP/1.1 302 Found\r\nLocation: https://a\r\n\r\n", ": status 302 Found"},
		{"says nonsense that echoes the secret", planted + basic + "\r\n\r\n", "the answer is not HTTP"},
		{"never comes to an answer", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100), "over and over"},
		{"sends an endless header", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 4000), "longer than 16 KiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr, _ := proxy(t, tt.answer, nil)
			_, err := through(t, proxyURL("http", addr), "", nil).Dial(testContext(t), discover.Endpoint{Host: "node1.test", Port: 1})
			if failed := wantProxyError(t, err, addr); !strings.Contains(failed.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("is not there", func(t *testing.T) {
		addr := refusing(t).String()
		_, err := through(t, proxyURL("http", addr), "", nil).Dial(testContext(t), discover.Endpoint{Host: "node1.test", Port: 1})
		if _, ok := errors.AsType[*net.OpError](wantProxyError(t, err, addr)); !ok {
			t.Errorf("got %v, want the error of the socket", err)
		}
	})
	t.Run("says nothing", func(t *testing.T) {
		listener, addr := listen(t, "127.0.0.1") // the kernel accepts
		defer listener.Close()                   //nolint:errcheck // the test is over
		ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
		defer cancel()
		_, err := through(t, proxyURL("http", addr.String()), "", nil).Dial(ctx, discover.Endpoint{Host: "node1.test", Port: 1})
		if failed := wantProxyError(t, err, addr.String()); !errors.Is(failed, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
	})
}

// A proxy that cannot be used fails the dial; it is neither passed by nor shown.
func TestAProxyThatCannotBeReadIsNotPassedBy(t *testing.T) {
	for _, url := range []string{
		"socks5://user:pl%40nted%2Fsecret@127.0.0.1:1", "http://user:" + planted + "\x7f@127.0.0.1",
		"http://user:pl%40nted%2Fsecret@a:0", "http://user:pl%40nted%2Fsecret@a:70000",
		"http://user:1234/pl@nted/secret@127.0.0.1:1", "user:1234/pl@nted/secret@127.0.0.1:1", "http://user:1234#pl@nted/secret@127.0.0.1:1",
		"http://user:1234?pl@nted/secret@127.0.0.1:1", "http://user:pl@nted secret@127.0.0.1:1", "http://", "http://:1", "://user",
		"http://user/pl@nted/secret@127.0.0.1:1",
	} {
		_, at := listen(t, "127.0.0.1")
		dialer := through(t, url, "direct.test", nil)
		_, err := dialer.Dial(testContext(t), discover.Endpoint{Host: "node1.test", Port: 1, Addrs: []netip.AddrPort{at}})
		if failed := wantProxyError(t, err, ""); !strings.Contains(failed.Error(), "HTTPS_PROXY") {
			t.Errorf("got %v, want the name of the variable", err)
		}
		mustDial(t, dialer, discover.Endpoint{Host: "direct.test", Port: 1, Addrs: []netip.AddrPort{at}})
	}
}

func TestWhoIsReachedThroughTheProxy(t *testing.T) {
	tests := []struct {
		host, noProxy string
		want          bool
	}{
		{"node1.test", "", true},
		{"10.0.0.1", "", true},
		{"fe80::1%eth0", "", true},
		{"localhost", "", false},
		{"127.0.0.1", "", false},
		{"::1", "", false},
		{"node1.test", "*", false},
		{"node1.test", "test", false},
		{"node1.test", ".other.test, node1.test:35000", false},
		{"node1.test", "node1.test:1", true},
		{"10.0.0.1", "10.0.0.0/8", false},
	}
	for _, tt := range tests {
		dialer := through(t, "proxy.test:3128", tt.noProxy, nil)
		if got := dialer.Proxied(discover.Endpoint{Host: tt.host, Port: 35000}); got != tt.want {
			t.Errorf("%s with NO_PROXY=%s is proxied: %v, want %v", tt.host, tt.noProxy, got, tt.want)
		}
	}
	if through(t, "", "", nil).Proxy != nil {
		t.Error("without HTTPS_PROXY there is a proxy")
	}
}

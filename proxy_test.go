// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// webProxy is a proxy that knows the names of a cluster, which the system does not.
type webProxy struct {
	listener net.Listener
	group    sync.WaitGroup

	mu      sync.Mutex
	targets []string
}

func startProxy(t *testing.T) *webProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &webProxy{listener: listener}
	p.group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.group.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.group.Wait()
	})
	return p
}

// serve leads one connection to the port that was asked for, on this machine.
func (p *webProxy) serve(client net.Conn) {
	defer client.Close() //nolint:errcheck // over
	reader := bufio.NewReader(client)
	request, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.targets = append(p.targets, request.Method+" "+request.RequestURI)
	p.mu.Unlock()
	server, err := net.Dial("tcp", "127.0.0.1:"+request.URL.Port())
	if err != nil {
		_, _ = io.WriteString(client, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	defer server.Close() //nolint:errcheck // over
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	p.group.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	_, _ = io.Copy(server, reader)
}

func (p *webProxy) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.targets...)
}

// setProxy sets the variables for what is made from now on.
func setProxy(t *testing.T, p *webProxy, noProxy string) {
	t.Helper()
	t.Setenv("HTTPS_PROXY", "http://user:pl%40nted%2Fsecret@"+p.listener.Addr().String())
	t.Setenv("NO_PROXY", noProxy)
}

// taken is how many connections the servers of a cluster have taken.
func taken(c *evenkeeltest.Cluster) int {
	n := 0
	for _, s := range c.Servers {
		n += s.AcceptedConnections()
	}
	return n
}

func TestProbeReservationTokenAndCallsGoThroughTheProxy(t *testing.T) {
	cluster := guarded(t, evenkeeltest.Config{Servers: 2})
	p := startProxy(t)
	setProxy(t, p, "")
	conn, r := meet(t, cluster, cluster.SRVConnectionString())
	if err := clients(within(t), conn); err != nil {
		t.Errorf("a call: %v", err)
	}
	for _, o := range r.await(t, evenkeel.EventSelected, 1).Observations {
		if o.Err != nil || o.Count.Addr.IsValid() {
			t.Errorf("probe of %s: %v at %s, want a count and no address", o.Endpoint.Addr(), o.Err, o.Count.Addr)
		}
	}
	asked := p.asked()
	if len(asked) < 4 || len(asked) != taken(cluster) { // two probes, a token, the session; the reservation is on a probe's
		t.Errorf("the proxy was asked %q and the servers have taken %d connections, want the same four or more", asked, taken(cluster))
	}
	for _, target := range asked {
		if !strings.HasPrefix(target, "CONNECT node") || !strings.Contains(target, ".cluster.test:") {
			t.Errorf("the proxy was asked %q, want the name of a server", target)
		}
	}
	if got := conn.Server(); len(got.Addrs) > 0 && strings.HasSuffix(p.listener.Addr().String(), got.Addrs[0].String()) {
		t.Errorf("the address of the server is that of the proxy: %v", got.Addrs)
	}
}

func TestWithNoProxyInTheEnvironmentOrInCodeNothingGoesThroughIt(t *testing.T) {
	cluster := guarded(t, evenkeeltest.Config{Servers: 2})
	tests := []struct {
		name, noProxy string
		option        evenkeel.Option
	}{
		{"NO_PROXY with the domain", "cluster.test", nil},
		{"NO_PROXY with everything", "*", nil},
		{"WithNoProxy", "", evenkeel.WithNoProxy()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := startProxy(t)
			setProxy(t, p, tt.noProxy)
			conn, _ := meet(t, cluster, cluster.SRVConnectionString(), tt.option)
			if err := clients(within(t), conn); err != nil {
				t.Errorf("a call: %v", err)
			}
			if asked := p.asked(); len(asked) > 0 {
				t.Errorf("the proxy was asked %q, want nothing", asked)
			}
			if got := conn.Server(); len(got.Addrs) != 1 {
				t.Errorf("the addresses are %v, want the one in use", got.Addrs)
			}
		})
	}
}

func TestAProxyThatDoesNotLeadThereFailsTheAttemptAndShowsNothing(t *testing.T) {
	cluster := guarded(t, evenkeeltest.Config{Servers: 1})
	p := startProxy(t)
	setProxy(t, p, "")
	if err := cluster.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	conn, err := evenkeel.New(cluster.SRVConnectionString(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithEvents(r.record))
	if err != nil {
		t.Fatal(err)
	}
	text := r.await(t, evenkeel.EventCandidateFailed, 1).Err.Error()
	wantParts(t, text, "proxy 127.0.0.1:", "status 502 Bad Gateway", "HTTPS_PROXY", "WithNoProxy")
	noSecret(t, text)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// connectProxy is an HTTP proxy that leads CONNECT requests to the servers of a fleet.
type connectProxy struct {
	t        *testing.T
	listener net.Listener
	routes   map[string]string // from what is asked for to where it is

	mu    sync.Mutex
	asked []string
}

func newConnectProxy(t *testing.T, routes map[string]string) *connectProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &connectProxy{t: t, listener: listener, routes: routes}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return p
}

func (p *connectProxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	reader := bufio.NewReader(client)
	request, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, request.Host)
	p.mu.Unlock()
	server, err := net.Dial("tcp", p.routes[request.Host])
	if err != nil {
		_, _ = io.WriteString(client, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	var pumps sync.WaitGroup
	pumps.Go(func() {
		_, _ = io.Copy(server, reader)
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
	_ = client.Close()
	pumps.Wait()
}

// runProxyTest runs the test once more in a process of its own: package net/http reads the environment once. Prepare
// returns what is dialled and the servers that are to answer.
func runProxyTest(t *testing.T, prepare func(f *fleet) (target string, want []string)) {
	t.Helper()
	f := newFleet(t, 2)
	_, port, _ := strings.Cut(f.at(1), ":")
	target, want := prepare(f)
	proxy := newConnectProxy(t, map[string]string{
		proxied(1) + ":" + port: f.at(1), proxied(2) + ":" + port: f.at(2),
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(testContext(t), self, "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), "EVENKEEL_PROXY_TARGET="+target, "EVENKEEL_PROXY_WANT="+strings.Join(want, ","),
		"HTTPS_PROXY=http://"+proxy.listener.Addr().String(), "https_proxy=", "NO_PROXY=", "no_proxy=")
	if output, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
	proxy.mu.Lock()
	defer proxy.mu.Unlock()
	slices.Sort(proxy.asked)
	for _, host := range proxy.asked {
		if !strings.HasPrefix(host, "192.0.2.") {
			t.Errorf("the proxy was asked for %s, want addresses that were looked up here", host)
		}
	}
	if got := len(slices.Compact(proxy.asked)); got != 2 {
		t.Errorf("the proxy was asked for %v, want both addresses", proxy.asked)
	}
}

func proxyChild(t *testing.T) {
	t.Helper()
	conn := dial(t, open(t, quick()), os.Getenv("EVENKEEL_PROXY_TARGET"))
	reaches(t, conn, strings.Split(os.Getenv("EVENKEEL_PROXY_WANT"), ",")...)
}

func TestProxyOfTheEnvironmentDoesNotBypassTheResolver(t *testing.T) {
	t.Parallel()
	if os.Getenv("EVENKEEL_PROXY_TARGET") != "" {
		proxyChild(t)
		return
	}
	runProxyTest(t, func(f *fleet) (string, []string) {
		f.dns.SetAddrs(fleetName, netip.MustParseAddr(proxied(1)), netip.MustParseAddr(proxied(2)))
		return f.target(), []string{f.at(1), f.at(2)}
	})
}

// TestBackupsServeBehindAProxy: on the long way to a proxy an update returns before any policy has seen it.
func TestBackupsServeBehindAProxy(t *testing.T) {
	t.Parallel()
	if target := os.Getenv("EVENKEEL_PROXY_TARGET"); target != "" {
		eventually(t, dial(t, open(t, quick()), target), os.Getenv("EVENKEEL_PROXY_WANT"))
		return
	}
	runProxyTest(t, func(f *fleet) (string, []string) {
		f.dns.SetAddrs(node(1), netip.MustParseAddr(proxied(1)))
		f.dns.SetAddrs(node(2), netip.MustParseAddr(proxied(2)))
		f.dns.SetSRV(srvName, f.record(1, 0, 0), f.record(2, 1, 0))
		f.stop(1)
		return f.srvTarget(), []string{f.at(2)}
	})
}

// proxied are addresses that no machine has, which only the proxy of the test leads anywhere.
func proxied(i int) string { return fmt.Sprintf("192.0.2.%d", i) }

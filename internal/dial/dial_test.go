// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package dial_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/internal/dial"
	"github.com/evenkeel-go/evenkeel/internal/need"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func mustDial(t *testing.T, dialer dial.Dialer, e discover.Endpoint) net.Conn {
	t.Helper()
	conn, err := dialer.Dial(testContext(t), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestDialReturnsThePlainConnection(t *testing.T) {
	t.Parallel()
	_, addr := listen(t, "127.0.0.1")
	conn := mustDial(t, dial.Dialer{}, discover.Endpoint{Host: "127.0.0.1", Port: addr.Port()})
	if _, ok := conn.(*net.TCPConn); !ok {
		t.Errorf("got a %T, want a *net.TCPConn: grpc-go sets TCP_USER_TIMEOUT on nothing else", conn)
	}
	if got := conn.RemoteAddr().String(); got != addr.String() {
		t.Errorf("connected to %s, want %s", got, addr)
	}
}

func TestDialGoesPastARefusedAddress(t *testing.T) {
	t.Parallel()
	_, addr := listen(t, "127.0.0.1")
	e := discover.Endpoint{Host: "node1.test", Port: 1, Addrs: []netip.AddrPort{refusing(t), addr}}
	if got := mustDial(t, dial.Dialer{}, e).RemoteAddr().String(); got != addr.String() {
		t.Errorf("connected to %s, want %s", got, addr)
	}
}

func TestDialOnIPv6(t *testing.T) {
	t.Parallel()
	need.IPv6(t)
	_, addr := listen(t, "::1")
	conn := mustDial(t, dial.Dialer{}, discover.Endpoint{Host: "::1", Port: addr.Port()})
	if got := conn.RemoteAddr().String(); got != addr.String() {
		t.Errorf("connected to %s, want %s", got, addr)
	}
}

func TestDialGoesFromARefusedIPv6AddressToIPv4(t *testing.T) {
	t.Parallel()
	need.IPv6(t)
	listener, refused := listen(t, "::1")
	_ = listener.Close()
	_, addr := listen(t, "127.0.0.1")
	e := discover.Endpoint{Host: "node1.test", Port: 1, Addrs: []netip.AddrPort{refused, addr}}
	if got := mustDial(t, dial.Dialer{}, e).RemoteAddr().String(); got != addr.String() {
		t.Errorf("connected to %s, want %s", got, addr)
	}
}

func TestDialNamesEveryRefusedAddress(t *testing.T) {
	t.Parallel()
	first, second := refusing(t), refusing(t)
	_, err := dial.Dialer{}.Dial(testContext(t), discover.Endpoint{
		Host: "node1.test", Port: 1, Addrs: []netip.AddrPort{first, second},
	})
	if err == nil {
		t.Fatal("connected, want an error")
	}
	for _, addr := range []netip.AddrPort{first, second} {
		if !strings.Contains(err.Error(), addr.String()) {
			t.Errorf("error %q does not name %s", err, addr)
		}
	}
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Errorf("error %q hides the error of the socket", err)
	}
}

func TestDialWithAnEndedContext(t *testing.T) {
	t.Parallel()
	_, addr := listen(t, "127.0.0.1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	conn, err := dial.Dialer{}.Dial(ctx, discover.Endpoint{Host: "127.0.0.1", Port: addr.Port()})
	if conn != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, want no connection and an error that matches context.Canceled", conn, err)
	}
}

// asking returns a dialer whose names are looked up at the server.
func asking(server *evenkeeltest.DNS) dial.Dialer {
	return dial.Dialer{Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, network, server.Addr())
			if err == nil {
				context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
			}
			return conn, err
		},
	}}
}

func addrPorts(addrs ...string) []netip.AddrPort {
	var parsed []netip.AddrPort
	for _, addr := range addrs {
		parsed = append(parsed, netip.MustParseAddrPort(addr))
	}
	return parsed
}

func TestLookup(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	server.SetAddrs("node1.cluster.test", netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3"))
	server.SetCNAME("www.cluster.test", "node2.cluster.test")
	server.SetAddrs("node2.cluster.test", netip.MustParseAddr("::1"))
	tests := []struct {
		name     string
		endpoint discover.Endpoint
		want     []string
	}{
		{"known addresses", discover.Endpoint{Host: "x.test", Port: 1, Addrs: addrPorts("10.0.0.1:7", "[fd00::1]:7")}, []string{"10.0.0.1:7", "[fd00::1]:7"}},
		{"a known address in its IPv6 form", discover.Endpoint{Host: "x.test", Port: 1, Addrs: addrPorts("[::ffff:10.0.0.1]:7")}, []string{"10.0.0.1:7"}},
		{"IPv4", discover.Endpoint{Host: "10.0.0.1", Port: 7}, []string{"10.0.0.1:7"}},
		{"IPv6", discover.Endpoint{Host: "fd00::1", Port: 7}, []string{"[fd00::1]:7"}},
		{"IPv6 with a zone", discover.Endpoint{Host: "fe80::1%eth0", Port: 7}, []string{"[fe80::1%eth0]:7"}},
		{"IPv4 in its IPv6 form", discover.Endpoint{Host: "::ffff:10.0.0.1", Port: 7}, []string{"10.0.0.1:7"}},
		{"a name", discover.Endpoint{Host: "node1.cluster.test", Port: 7}, []string{"127.0.0.2:7", "127.0.0.3:7"}},
		{"a whole name", discover.Endpoint{Host: "node1.cluster.test", Port: 7, Absolute: true}, []string{"127.0.0.2:7", "127.0.0.3:7"}},
		{"an alias", discover.Endpoint{Host: "www.cluster.test", Port: 7}, []string{"[::1]:7"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := asking(server).Lookup(testContext(t), test.endpoint)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(addrPorts(test.want...), got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLookupDoesNotHandOutTheAddressesOfTheEndpoint(t *testing.T) {
	t.Parallel()
	e := discover.Endpoint{Host: "x.test", Port: 1, Addrs: addrPorts("10.0.0.1:7")}
	got, err := dial.Dialer{}.Lookup(testContext(t), e)
	if err != nil {
		t.Fatal(err)
	}
	got[0] = netip.AddrPort{}
	if want := addrPorts("10.0.0.1:7")[0]; e.Addrs[0] != want {
		t.Errorf("the endpoint now has %v, want %v", e.Addrs[0], want)
	}
}

func TestLookupFailures(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	tests := []struct {
		name     string
		endpoint discover.Endpoint
		text     []string
	}{
		{"no such name", discover.Endpoint{Host: "gone.cluster.test", Port: 7, Absolute: true}, []string{"look up gone.cluster.test", "no such host"}},
		{"no host", discover.Endpoint{Port: 7}, []string{`":7"`, "needs a host and a port"}},
		{"no port", discover.Endpoint{Host: "node1.cluster.test"}, []string{`"node1.cluster.test:0"`, "needs a host and a port"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := asking(server).Lookup(testContext(t), test.endpoint)
			if err == nil {
				t.Fatal("found addresses, want an error")
			}
			for _, want := range test.text {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if dnsErr, ok := errors.AsType[*net.DNSError](err); ok && dnsErr.Server != "" {
				t.Errorf("error %q names the server %s, which was not asked", err, dnsErr.Server)
			}
		})
	}
}

func TestLookupOfAWholeNameAsksForNothingElse(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	_, err := asking(server).Lookup(testContext(t), discover.Endpoint{Host: "gone", Port: 7, Absolute: true})
	if err == nil {
		t.Fatal("found addresses, want an error")
	}
	for _, query := range server.Queries() {
		if query.Name != "gone" {
			t.Errorf("asked for %q, want nothing but \"gone\"", query.Name)
		}
	}
	if len(server.Queries()) == 0 {
		t.Error("nothing was asked")
	}
}

func TestLookupEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	if err := server.SetFault("hung.cluster.test", "", evenkeeltest.DNSFault{Silent: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	ended := make(chan error, 1)
	go func() {
		_, err := asking(server).Lookup(ctx, discover.Endpoint{Host: "hung.cluster.test", Port: 7, Absolute: true})
		ended <- err
	}()
	if err := server.Wait(ctx, "hung.cluster.test", "A", 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	began := time.Now()
	err := <-ended
	if took := time.Since(began); took > time.Second {
		t.Errorf("took %v after the cancel", took)
	}
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "hung.cluster.test") {
		t.Errorf("got %v, want an error that names the host and matches context.Canceled", err)
	}
}

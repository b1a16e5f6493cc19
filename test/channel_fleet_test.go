// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && linux

package test_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/evenkeel-go/evenkeel/channel"
)

const (
	channelZone = "fleet.test"
	channelName = "api.fleet.test"
	// updateLimit is how long a name server has for an update.
	updateLimit = 5 * time.Second

	// The intervals of the channels: short, so that a test need not take minutes.
	channelInterval    = 2 * time.Second
	channelMaxInterval = 4 * time.Second
	channelMinInterval = 500 * time.Millisecond
	channelDrain       = 2 * time.Second
	// fleetDrainLimit is how long a server that was asked to end waits for its clients.
	fleetDrainLimit = 8 * time.Second
	// dueLimit is what a change may take beyond the interval: a lookup, a handshake, and a busy machine.
	dueLimit = time.Second
)

// channelFleet is servers that share a name and a port, each on an address of its own in a process of its own, and the
// name server that knows them.
type channelFleet struct {
	t         *testing.T
	ca        *authority
	cert, key string
	dns       *knot
	port      string
	servers   map[int]*serving // by the last byte of their addresses
}

// startChannelFleet starts servers 1 to n, and tells the name server. All of it ends with the test.
func startChannelFleet(ctx context.Context, t *testing.T, n int) *channelFleet {
	t.Helper()
	f := &channelFleet{t: t, ca: newAuthority(t), servers: make(map[int]*serving)}
	f.cert, f.key = f.ca.issue(channelName)
	f.dns = startKnot(ctx, t, map[string][]string{channelZone: nil})
	f.start(ctx, numbers(1, n)...)
	f.publish(ctx, numbers(1, n)...)
	return f
}

// numbers are those from first to last.
func numbers(first, last int) []int {
	var all []int
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

// portOf is the port of "host:port".
func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// start starts servers. The first one of all takes a free port, and the others have that port too.
func (f *channelFleet) start(ctx context.Context, wanted ...int) {
	f.t.Helper()
	for _, n := range wanted {
		listen := net.JoinHostPort(loopback(n), "0")
		if f.port != "" {
			listen = net.JoinHostPort(loopback(n), f.port)
		}
		s := serve(ctx, f.t, loopback(n), "--listen", listen, "--cert", f.cert, "--key", f.key,
			"--drain-period", "1s", "--drain-limit", fleetDrainLimit.String())
		f.servers[n], f.port = s, s.port()
	}
}

// publish makes servers the ones that the name server tells, and no others.
func (f *channelFleet) publish(ctx context.Context, listed ...int) {
	f.t.Helper()
	addrs := make([]string, len(listed))
	for i, n := range listed {
		addrs[i] = loopback(n)
	}
	f.dns.set(ctx, channelZone, channelName, dns.TypeA, addrs...)
}

// terminate asks servers to end, as Kubernetes does.
func (f *channelFleet) terminate(numbers ...int) {
	f.t.Helper()
	for _, n := range numbers {
		f.servers[n].signal(syscall.SIGTERM)
	}
}

// awaitEnd waits until servers that were asked to have ended in good order.
func (f *channelFleet) awaitEnd(ctx context.Context, numbers ...int) {
	f.t.Helper()
	for _, n := range numbers {
		if code := f.servers[n].wait(ctx); code != 0 {
			f.t.Errorf("server %d ended with status %d", n, code)
		}
	}
}

// kill ends servers without notice.
func (f *channelFleet) kill(numbers ...int) {
	f.t.Helper()
	for _, n := range numbers {
		f.servers[n].kill()
	}
}

// dial makes a channel to the fleet.
func (f *channelFleet) dial(extra ...grpc.DialOption) *grpc.ClientConn {
	f.t.Helper()
	return dialChannel(f.t, f.ca, fmt.Sprintf("dns://%s/%s:%s", f.dns.addr, channelName, f.port), extra...)
}

// dialChannel makes a channel, which ends with the test.
func dialChannel(t *testing.T, ca *authority, target string, extra ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	keep, err := channel.New(channel.Config{
		Interval: channelInterval, MaxInterval: channelMaxInterval, MinInterval: channelMinInterval, DrainTimeout: channelDrain,
	})
	if err != nil {
		t.Fatal(err)
	}
	options := append(keep.DialOptions(), grpc.WithTransportCredentials(credentials.NewTLS(ca.tls())))
	conn, err := grpc.NewClient(target, append(options, extra...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), keep.Close()); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// set replaces the records of one type that a name of a zone has, by a dynamic update (RFC 2136), which the name server
// has applied when this returns. The values are in the form of a zone file.
func (k *knot) set(ctx context.Context, zone, name string, kind uint16, values ...string) {
	k.t.Helper()
	records := make([]dns.RR, len(values))
	for i, value := range values {
		record, err := dns.NewRR(fmt.Sprintf("%s 5 IN %s %s", dns.Fqdn(name), dns.TypeToString[kind], value))
		if err != nil {
			k.t.Fatal(err)
		}
		records[i] = record
	}
	update := new(dns.Msg).SetUpdate(dns.Fqdn(zone))
	update.RemoveRRset([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: dns.Fqdn(name), Rrtype: kind}}})
	update.Insert(records)
	client := dns.Client{Timeout: updateLimit}
	reply, _, err := client.ExchangeContext(ctx, update, k.addr)
	if err != nil || reply.Rcode != dns.RcodeSuccess {
		k.t.Fatalf("update of %s: %v: %v", name, reply, err)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

const srvName = "_who._tcp.fleet.test"

func (f *fleet) srvTarget() string { return fmt.Sprintf("srv://%s/%s", f.dns.Addr(), srvName) }

// node is the name of a server's host.
func node(i int) string { return fmt.Sprintf("node%d.fleet.test", i) }

// record is the SRV record of a server.
func (f *fleet) record(i int, priority, weight uint16) evenkeeltest.SRV {
	return evenkeeltest.SRV{Target: node(i), Port: f.port, Priority: priority, Weight: weight}
}

// name gives servers their host names in DNS.
func (f *fleet) name(servers ...int) {
	for _, i := range servers {
		f.dns.SetAddrs(node(i), f.addr(i))
	}
}

func TestSRVTargetsAreEndpointsWithTheirPorts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.name(1)
	other := evenkeeltest.SRV{Target: node(1), Port: secondPort(t, f)}
	f.dns.SetSRV(srvName, f.record(1, 0, 0), other)
	conn := dial(t, open(t, quick()), f.srvTarget())
	reaches(t, conn, f.at(1), fmt.Sprintf("%v:%d", f.addr(1), other.Port))
	// A port that changes is another endpoint.
	f.dns.SetSRV(srvName, other)
	reaches(t, conn, fmt.Sprintf("%v:%d", f.addr(1), other.Port))
}

// secondPort starts a server on another port of the first address.
func secondPort(t *testing.T, f *fleet) uint16 {
	t.Helper()
	listener, err := net.Listen("tcp", f.addr(1).String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	f.run(newServer(listener.Addr().String()), listener)
	return uint16(listener.Addr().(*net.TCPAddr).Port) //nolint:gosec,forcetypeassert // of a listener
}

func TestSRVPrioritiesAreBackups(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.name(1, 2, 3)
	f.dns.SetSRV(srvName, f.record(1, 10, 0), f.record(2, 10, 0), f.record(3, 20, 0))
	conn := dial(t, open(t, quick()), f.srvTarget())
	reaches(t, conn, f.at(1), f.at(2))
	if got := tally(t, conn, 50); got[f.at(3)] != 0 {
		t.Errorf("got %v, want no call at the backup %s", got, f.at(3))
	}
	f.stop(1)
	eventually(t, conn, f.at(2))
	f.stop(2)
	eventually(t, conn, f.at(3))
	f.start(2)
	eventually(t, conn, f.at(2))
}

// eventually calls until a row of calls is all answered by one server; calls may fail until then.
func eventually(t *testing.T, conn grpc.ClientConnInterface, want string) {
	t.Helper()
	ctx := testContext(t)
	row := 0
	for row < 20 {
		name, err := who(ctx, conn)
		switch {
		case err == nil && name == want:
			row++
		case ctx.Err() != nil:
			t.Fatalf("got an answer of %q, %v, want one of %s", name, err, want)
		default:
			row = 0
			tick(t)
		}
	}
}

func TestSRVWeightsAreShares(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.name(1, 2)
	f.dns.SetSRV(srvName, f.record(1, 0, 30), f.record(2, 0, 10))
	conn := dial(t, open(t, quick()), f.srvTarget())
	reaches(t, conn, f.at(1), f.at(2))
	if got := tally(t, conn, 400); got[f.at(1)] < 270 || got[f.at(1)] > 330 {
		t.Errorf("got %v, want three of four calls at %s", got, f.at(1))
	}
}

func TestSRVTargetThatDoesNotResolveDoesNotHarmTheOthers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.name(1, 2)
	f.dns.SetSRV(srvName, f.record(1, 0, 0), f.record(2, 0, 0), f.record(3, 0, 0))
	config := quick()
	heard := hear(&config)
	c := open(t, config)
	c.SetSystemForTest(asking(f.dns.Addr()))
	conn := dial(t, c, f.srvTarget())
	reaches(t, conn, f.at(1), f.at(2))
	heard.wait(t, "a report of the third", func() bool {
		last := heard.resolutions[len(heard.resolutions)-1]
		partial, ok := errors.AsType[*discover.PartialError](last.Err)
		return ok && partial.Dropped == 1 && strings.Contains(last.Err.Error(), node(3)) && last.Endpoints == 2
	})
	// Its name comes, and goes again while it works: then it stays.
	f.name(3)
	reaches(t, conn, f.at(1), f.at(2), f.at(3))
	f.dns.Remove(node(3))
	heard.resolved(t, 2)
	reaches(t, conn, f.at(1), f.at(2), f.at(3))
	// The records without any name are an empty answer.
	f.dns.SetSRV(srvName, f.record(4, 0, 0))
	heard.wait(t, "a failed lookup", func() bool {
		return heard.resolutions[len(heard.resolutions)-1].Class == discover.ClassNoRecords
	})
	reaches(t, conn, f.at(1), f.at(2), f.at(3))
	f.name(2)
	f.dns.SetSRV(srvName, f.record(2, 0, 0))
	reaches(t, conn, f.at(2))
}

// asking returns a resolver that asks one name server, as the system's would.
func asking(server string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, server)
	}}
}

// The addresses of a host with two records were once doubled with each lookup of them that failed.
func TestSRVTargetsThatShareAHostKeepItsAddresses(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.name(1)
	other := evenkeeltest.SRV{Target: node(1), Port: secondPort(t, f)}
	f.dns.SetSRV(srvName, f.record(1, 0, 0), other)
	config := quick()
	heard := hear(&config)
	c := open(t, config)
	c.SetSystemForTest(asking(f.dns.Addr()))
	conn := dial(t, c, f.srvTarget())
	want := []string{f.at(1), fmt.Sprintf("%v:%d", f.addr(1), other.Port)}
	reaches(t, conn, want...)
	for _, family := range []string{"A", "AAAA"} {
		if err := f.dns.SetFault(node(1), family, evenkeeltest.DNSFault{Code: "REFUSED"}); err != nil {
			t.Fatal(err)
		}
	}
	failed := 0
	heard.wait(t, "eight lookups without addresses", func() bool {
		failed = 0
		for _, r := range heard.resolutions {
			if r.Class == discover.ClassPartial {
				failed++
			}
		}
		return failed >= 8
	})
	reaches(t, conn, want...)
	if got := heard.changeCount(); got != 1 {
		t.Errorf("got %d changes, want the first set alone: the last one is %.300v", got, heard.change(got-1))
	}
	for _, e := range heard.change(0).Added {
		if len(e.Addrs) != 1 {
			t.Errorf("got %d addresses of %v, want one", len(e.Addrs), e)
		}
	}
}

func TestSRVTargetNameWithoutItsDotIsWhatTLSChecks(t *testing.T) {
	t.Parallel()
	ca, err := devcert.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, 1)
	certificate, err := ca.Issue(node(2))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var names []string
	f.creds = func() credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate},
			GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				mu.Lock()
				defer mu.Unlock()
				names = append(names, hello.ServerName)
				return nil, nil //nolint:nilnil // keep the config
			},
		})
	}
	f.start(2)
	f.name(2)
	f.dns.SetSRV(srvName, evenkeeltest.SRV{Target: node(2) + ".", Port: f.port})
	conn := dial(t, open(t, quick()), f.srvTarget(),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool()})))
	if name, err := who(testContext(t), conn); err != nil || name != f.at(2) {
		t.Fatalf("got %q, %v, want an answer of %s", name, err, f.at(2))
	}
	mu.Lock()
	defer mu.Unlock()
	for _, name := range names {
		if name != node(2) {
			t.Errorf("TLS was asked for %q, want %q", name, node(2))
		}
	}
	if got := f.server[2].authority.Load(); got == nil || *got != node(2) {
		t.Errorf("got authority %v, want %q", got, node(2))
	}
}

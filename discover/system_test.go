// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// lookups are the calls of net.Resolver that the rooms make.
func lookups() map[string]func(context.Context, *net.Resolver) error {
	return map[string]func(context.Context, *net.Resolver) error{
		"LookupNetIP": func(ctx context.Context, r *net.Resolver) error {
			_, err := r.LookupNetIP(ctx, "ip", "a.test.")
			return err
		},
		"LookupHost": func(ctx context.Context, r *net.Resolver) error {
			_, err := r.LookupHost(ctx, "a.test.")
			return err
		},
		"LookupSRV": func(ctx context.Context, r *net.Resolver) error {
			_, _, err := r.LookupSRV(ctx, "", "", "a.test.")
			return err
		},
	}
}

func TestSystemResolverEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, lookup := range lookups() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
			setFault(t, dns, "a.test", "", evenkeeltest.DNSFault{Silent: true})
			ctx, cancel := context.WithCancel(lateContext(t))
			cancelled := make(chan time.Time, 1)
			go func() {
				qtype := "A"
				if name == "LookupSRV" {
					qtype = "SRV"
				}
				_ = dns.Wait(ctx, "a.test", qtype, 1)
				cancelled <- time.Now()
				cancel()
			}()
			err := lookup(ctx, discover.SystemResolverForTest(dns.Addr()))
			if took := time.Since(<-cancelled); err == nil || took > time.Second {
				t.Errorf("returned %v %v after the cancel, want an error within 100 ms", err, took)
			}
		})
	}
}

func TestSystemResolverHeedsDeadlines(t *testing.T) {
	t.Parallel()
	for name, lookup := range lookups() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
			setFault(t, dns, "a.test", "", evenkeeltest.DNSFault{Silent: true})
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := lookup(ctx, discover.SystemResolverForTest(dns.Addr()))
			dnsErr, ok := errors.AsType[*net.DNSError](err)
			if took := time.Since(began); !ok || !dnsErr.IsTimeout || took > time.Second {
				t.Errorf("returned %v after %v, want a timeout after 150 ms", err, took)
			}
		})
	}
}

func TestSystemResolverSurvivesALostDatagram(t *testing.T) {
	t.Parallel()
	silent := udpOnly(t, func([]byte) [][]byte { return nil })
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs("a.test", addr("10.0.0.1"))
	began := time.Now()
	addrs, err := discover.SystemResolverForTest(silent, dns.Addr()).LookupNetIP(lateContext(t), "ip4", "a.test.")
	if err != nil || len(addrs) != 1 || addrs[0] != addr("10.0.0.1") {
		t.Errorf("got %v, %v; want 10.0.0.1", addrs, err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("took %v, want 2 s", took)
	}
}

func TestSystemResolverAsksOverTCP(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs("a.test", addr("10.0.0.1"))
	setFault(t, dns, "a.test", "", evenkeeltest.DNSFault{Truncate: true})
	addrs, err := discover.SystemResolverForTest(dns.Addr()).LookupNetIP(lateContext(t), "ip4", "a.test.")
	if err != nil || len(addrs) != 1 || addrs[0] != addr("10.0.0.1") {
		t.Errorf("got %v, %v; want 10.0.0.1", addrs, err)
	}
}

// The dial hook is public through net.Resolver, so its connections keep their promise whatever is set on them.
func TestSystemResolverConnections(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	setFault(t, dns, owner, "", evenkeeltest.DNSFault{Raw: func(q evenkeeltest.DNSQuery) [][]byte { return [][]byte{q.Packed} }})
	ctx, cancel := context.WithCancel(lateContext(t))
	conn, err := discover.SystemResolver().Dial(ctx, "udp", dns.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	packets, ok := conn.(net.PacketConn)
	if !ok {
		t.Fatalf("%T is no net.PacketConn, so TCP would be spoken on it", conn)
	}
	buf := make([]byte, 512)
	if _, err := conn.Write(rawQuestion()); err != nil {
		t.Fatal(err)
	}
	if n, from, err := packets.ReadFrom(buf); err != nil || n == 0 || from.String() != dns.Addr() {
		t.Errorf("ReadFrom = %d, %v, %v; want the echo from %s", n, from, err, dns.Addr())
	}
	if _, err := packets.WriteTo(rawQuestion(), conn.RemoteAddr()); !errors.Is(err, net.ErrWriteToConnected) {
		t.Errorf("WriteTo = %v, want that the connection is connected", err)
	}
	cancel()
	never := time.Time{}
	for _, set := range []func(time.Time) error{conn.SetDeadline, conn.SetReadDeadline, conn.SetWriteDeadline} {
		if err := set(never); err != nil {
			t.Error(err)
		}
		if _, err := conn.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read after the cancel = %v, want it to end", err)
		}
	}
}

func TestSystemResolverIsGos(t *testing.T) {
	t.Parallel()
	if r := discover.SystemResolver(); !r.PreferGo || r.Dial == nil {
		t.Error("SystemResolver may use the C library's resolver, or has no dial hook")
	}
}

func TestEndpointLookupName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		endpoint discover.Endpoint
		want     string
	}{
		{discover.Endpoint{Host: "a.test", Absolute: true}, "a.test."},
		{discover.Endpoint{Host: "a.test"}, "a.test"},
		{discover.Endpoint{Host: "10.0.0.1", Absolute: true}, "10.0.0.1"},
		{discover.Endpoint{Host: "fe80::1%eth0", Absolute: true}, "fe80::1%eth0"},
		{discover.Endpoint{Absolute: true}, ""},
	}
	for _, tt := range tests {
		if got := tt.endpoint.LookupName(); got != tt.want {
			t.Errorf("LookupName of %q, absolute %v = %q, want %q", tt.endpoint.Host, tt.endpoint.Absolute, got, tt.want)
		}
	}
	if got := (discover.Endpoint{Host: "::1", Port: 53}).String(); got != "[::1]:53" {
		t.Errorf("String = %q, want [::1]:53", got)
	}
}

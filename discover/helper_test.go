// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

const (
	name  = "x.test"
	owner = "_chronicle._tcp.x.test"
	// late is behind everything that a test waits for, so that a hang fails it.
	late = 20 * time.Second
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// path is a way in which name servers are asked.
type path struct {
	name     string
	resolver func(t *testing.T, servers ...string) discover.Resolver
}

func paths() []path {
	return []path{
		{"name server", func(t *testing.T, servers ...string) discover.Resolver {
			t.Helper()
			return newSRV(t, discover.SRVConfig{Name: name, NameServer: servers[0]})
		}},
		{"system", func(t *testing.T, servers ...string) discover.Resolver {
			t.Helper()
			resolver := newSRV(t, discover.SRVConfig{Name: name})
			t.Cleanup(discover.RedirectSystemForTest(resolver, servers...))
			return resolver
		}},
	}
}

func newSRV(t *testing.T, config discover.SRVConfig) discover.Resolver {
	t.Helper()
	resolver, err := discover.SRV(config)
	if err != nil {
		t.Fatal(err)
	}
	return resolver
}

// onBothPaths runs a test against a server of its own, once per way of asking.
func onBothPaths(t *testing.T, test func(t *testing.T, dns *evenkeeltest.DNS, resolver discover.Resolver)) {
	t.Helper()
	for _, path := range paths() {
		t.Run(path.name, func(t *testing.T) {
			t.Parallel()
			dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
			test(t, dns, path.resolver(t, dns.Addr()))
		})
	}
}

func lateContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), late)
	t.Cleanup(cancel)
	return ctx
}

func setFault(t *testing.T, dns *evenkeeltest.DNS, name, qtype string, fault evenkeeltest.DNSFault) {
	t.Helper()
	if err := dns.SetFault(name, qtype, fault); err != nil {
		t.Fatal(err)
	}
}

// lines shows endpoints as "priority weight host:port [addresses]".
func lines(endpoints []discover.Endpoint) []string {
	var shown []string
	for _, e := range endpoints {
		line := fmt.Sprintf("%d %d %s", e.Priority, e.Weight, e)
		if len(e.Addrs) > 0 {
			line += fmt.Sprintf(" %v", e.Addrs)
		}
		shown = append(shown, line)
	}
	return shown
}

// wantLookupError checks everything about a failed lookup that callers can tell, and that it is of one kind only.
func wantLookupError(t *testing.T, err, kind error, server, code string) *discover.LookupError {
	t.Helper()
	failed, ok := errors.AsType[*discover.LookupError](err)
	if !ok {
		t.Fatalf("got %T %v, want a *LookupError", err, err)
	}
	for _, other := range []error{discover.ErrNoSuchName, discover.ErrNoRecords, discover.ErrServerFailed, discover.ErrTimeout} {
		if got, want := errors.Is(err, other), other == kind; got != want { //nolint:errorlint // identity is meant
			t.Errorf("errors.Is(%q, %q) = %v, want %v", err, other, got, want)
		}
	}
	if failed.Name != owner || failed.Server != server || failed.Code != code {
		t.Errorf("got name %q, server %q, code %q; want %q, %q, %q", failed.Name, failed.Server, failed.Code, owner, server, code)
	}
	if text := err.Error(); !strings.Contains(text, owner) || !strings.Contains(text, server) {
		t.Errorf("the text names neither query nor server: %s", text)
	}
	return failed
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// closedPort returns an address at which nothing listens: port 1 is not given out to anybody.
func closedPort() string { return "127.0.0.1:1" }

// udpOnly is a name server on UDP alone that answers with what reply returns; nothing listens on TCP.
func udpOnly(t *testing.T, reply func(query []byte) [][]byte) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 65535)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, msg := range reply(buf[:n]) {
				_, _ = conn.WriteTo(msg, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	return conn.LocalAddr().String()
}

// rawReply answers a query with records made by hand, so that they can be malformed.
func rawReply(query []byte, records ...[]byte) []byte {
	reply := append([]byte(nil), query[:questionEnd(query)]...)
	reply[2] |= 0x84 // QR and AA
	reply[3] = 0
	binary.BigEndian.PutUint16(reply[6:], uint16(len(records)))
	binary.BigEndian.PutUint16(reply[8:], 0)
	binary.BigEndian.PutUint16(reply[10:], 0)
	for _, rr := range records {
		reply = append(reply, rr...)
	}
	return reply
}

// questionEnd returns where the one question of a query ends.
func questionEnd(query []byte) int {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	return end + 5
}

// rawQuestion is a query as a client sends it.
func rawQuestion() []byte {
	return append(append([]byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, wire(strings.Split(owner, ".")...)...), 0, 33, 0, 1)
}

// rawRecord is a record of the question's name.
func rawRecord(kind uint16, body []byte) []byte { return rawRecordOf([]byte{0xC0, 12}, kind, body) }

func rawRecordOf(owner []byte, kind uint16, body []byte) []byte {
	rr := binary.BigEndian.AppendUint16(append([]byte(nil), owner...), kind)
	rr = append(rr, 0, 1, 0, 0, 0, 5)
	rr = binary.BigEndian.AppendUint16(rr, uint16(len(body)))
	return append(rr, body...)
}

// srvBody is the body of an SRV record whose target has the given labels.
func srvBody(priority, weight, port uint16, labels ...string) []byte {
	body := binary.BigEndian.AppendUint16(nil, priority)
	body = binary.BigEndian.AppendUint16(body, weight)
	body = binary.BigEndian.AppendUint16(body, port)
	return append(body, wire(labels...)...)
}

func wire(labels ...string) []byte {
	var name []byte
	for _, label := range labels {
		name = append(append(name, byte(len(label))), label...)
	}
	return append(name, 0)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/internal/need"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask puts one question with another implementation's client.
func ask(t *testing.T, server *evenkeeltest.DNS, network, name, qtype string) *dns.Msg {
	t.Helper()
	question := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.StringToType[qtype])
	client := dns.Client{Net: network, Timeout: 5 * time.Second}
	reply, _, err := client.Exchange(question, server.Addr())
	if err != nil {
		t.Fatalf("ask %s %s over %s: %v", name, qtype, network, err)
	}
	return reply
}

// content returns the records of an answer in the form of a zone file, without TTL and class.
func content(reply *dns.Msg) []string {
	var lines []string
	for _, rr := range reply.Answer {
		fields := strings.Fields(rr.String())
		lines = append(lines, strings.Join(append(fields[:1:1], fields[3:]...), " "))
	}
	return lines
}

func TestDNSAnswersOverUDPAndTCP(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	server.SetSRV("_chronicle._tcp.Cluster.test",
		evenkeeltest.SRV{Target: "node1.cluster.test", Port: 35000, Priority: 1, Weight: 2},
		evenkeeltest.SRV{Target: ".", Port: 1})
	server.SetAddrs("node1.cluster.test", netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"))
	server.SetCNAME("alias.test", "node1.cluster.test.")
	if err := server.AddRecord(`txt.test. 5 IN TXT "hello"`); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, qtype string
		want        []string
		rcode       int
	}{
		{"_Chronicle._tcp.cluster.test", "SRV", []string{"_chronicle._tcp.Cluster.test. SRV 1 2 35000 node1.cluster.test.", "_chronicle._tcp.Cluster.test. SRV 0 0 1 ."}, dns.RcodeSuccess},
		{"node1.cluster.test", "A", []string{"node1.cluster.test. A 127.0.0.1"}, dns.RcodeSuccess},
		{"node1.cluster.test", "AAAA", []string{"node1.cluster.test. AAAA ::1"}, dns.RcodeSuccess},
		{"alias.test", "A", []string{"alias.test. CNAME node1.cluster.test.", "node1.cluster.test. A 127.0.0.1"}, dns.RcodeSuccess},
		{"txt.test", "TXT", []string{`txt.test. TXT "hello"`}, dns.RcodeSuccess},
		{"node1.cluster.test", "SRV", nil, dns.RcodeSuccess},
		{"cluster.test", "A", nil, dns.RcodeSuccess},
		{"absent.test", "A", nil, dns.RcodeNameError},
	}
	for _, network := range []string{"udp", "tcp"} {
		for _, tt := range tests {
			t.Run(network+" "+tt.name+" "+tt.qtype, func(t *testing.T) {
				t.Parallel()
				reply := ask(t, server, network, tt.name, tt.qtype)
				if diff := cmp.Diff(tt.want, content(reply)); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				if reply.Rcode != tt.rcode || !reply.Authoritative {
					t.Errorf("code %d, authoritative %v; want %d, true", reply.Rcode, reply.Authoritative, tt.rcode)
				}
			})
		}
	}
}

func TestDNSRecordsChangeWhileItRuns(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	steps := []struct {
		name   string
		change func()
		want   []string
		rcode  int
	}{
		{"set", func() { server.SetAddrs("a.test", netip.MustParseAddr("10.0.0.1")) }, []string{"a.test. A 10.0.0.1"}, dns.RcodeSuccess},
		{"replace", func() { server.SetAddrs("a.test", netip.MustParseAddr("10.0.0.2")) }, []string{"a.test. A 10.0.0.2"}, dns.RcodeSuccess},
		{"replace another type", func() { server.SetSRV("a.test", evenkeeltest.SRV{Target: "b.test", Port: 1}) }, []string{"a.test. A 10.0.0.2"}, dns.RcodeSuccess},
		{"empty", func() { server.SetAddrs("a.test") }, nil, dns.RcodeSuccess},
		{"remove", func() { server.Remove("a.test.") }, nil, dns.RcodeNameError},
	}
	for _, step := range steps {
		step.change()
		reply := ask(t, server, "udp", "a.test", "A")
		if diff := cmp.Diff(step.want, content(reply)); diff != "" || reply.Rcode != step.rcode {
			t.Errorf("%s: code %d, want %d; answer (-want +got):\n%s", step.name, reply.Rcode, step.rcode, diff)
		}
	}
}

func TestDNSFaults(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	var many []netip.Addr
	for i := range 200 {
		many = append(many, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
	}
	server.SetAddrs("many.test", many...)
	server.SetAddrs("a.test", many[1])
	tests := []struct {
		name  string
		host  string
		fault evenkeeltest.DNSFault
		check func(*dns.Msg) bool
	}{
		{"code", "a.test", evenkeeltest.DNSFault{Code: "SERVFAIL"}, func(m *dns.Msg) bool { return m.Rcode == dns.RcodeServerFailure && len(m.Answer) == 0 }},
		{"no data", "a.test", evenkeeltest.DNSFault{Code: "NOERROR"}, func(m *dns.Msg) bool { return m.Rcode == dns.RcodeSuccess && len(m.Answer) == 0 }},
		{"truncate", "a.test", evenkeeltest.DNSFault{Truncate: true}, func(m *dns.Msg) bool { return m.Truncated && len(m.Answer) == 0 }},
		{"too large is truncated", "many.test", evenkeeltest.DNSFault{}, func(m *dns.Msg) bool { return m.Truncated && len(m.Answer) < 200 }},
		{"lame", "a.test", evenkeeltest.DNSFault{Lame: true}, func(m *dns.Msg) bool { return !m.Authoritative && !m.RecursionAvailable }},
		{"extra", "a.test", evenkeeltest.DNSFault{Extra: []string{"b.test. A 10.9.9.9"}}, func(m *dns.Msg) bool { return len(m.Answer) == 2 && m.Answer[0].Header().Name == "b.test." }},
		{"referral", "a.test", evenkeeltest.DNSFault{Code: "NOERROR", Referral: "ns.test"}, func(m *dns.Msg) bool { return len(m.Ns) == 1 }},
	}
	for _, tt := range tests {
		if err := server.SetFault(tt.host, "A", tt.fault); err != nil {
			t.Fatal(err)
		}
		if reply := ask(t, server, "udp", tt.host, "A"); !tt.check(reply) {
			t.Errorf("%s: got\n%v", tt.name, reply)
		}
		server.ClearFault(tt.host, "A")
	}
	if reply := ask(t, server, "udp", "a.test", "A"); len(reply.Answer) != 1 {
		t.Errorf("after ClearFault: got\n%v", reply)
	}
}

func TestDNSRefusesUnreadableFaults(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	for _, fault := range []evenkeeltest.DNSFault{{Code: "WHAT"}, {Extra: []string{"not a record"}}} {
		if err := server.SetFault("a.test", "", fault); err == nil {
			t.Errorf("SetFault(%+v): no error", fault)
		}
	}
	for _, record := range []string{"", "a.test. IN SRV 1"} {
		if err := server.AddRecord(record); err == nil {
			t.Errorf("AddRecord(%q): no error", record)
		}
	}
}

func TestDNSGateHoldsTheReplyAndQueriesAreKept(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	gate := make(chan struct{})
	if err := server.SetFault("a.test", "", evenkeeltest.DNSFault{Gate: gate}); err != nil {
		t.Fatal(err)
	}
	replies := make(chan *dns.Msg, 1)
	go func() {
		question := new(dns.Msg).SetQuestion("A.test.", dns.TypeA)
		reply, _, _ := (&dns.Client{Timeout: 10 * time.Second}).Exchange(question, server.Addr())
		replies <- reply
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := server.Wait(ctx, "a.test.", "A", 1); err != nil {
		t.Fatal(err)
	}
	select {
	case reply := <-replies:
		t.Fatalf("the gate is closed, yet a reply came: %v", reply)
	default:
	}
	close(gate)
	if reply := <-replies; reply == nil || reply.Rcode != dns.RcodeNameError {
		t.Errorf("after the gate: got %v, want NXDOMAIN", reply)
	}
	if got := server.Count("a.test", "A"); got != 1 {
		t.Errorf("Count = %d, want 1", got)
	}
	queries := server.Queries()
	if len(queries) != 1 || queries[0].Name != "a.test" || queries[0].Type != "A" || queries[0].Network != "udp" || len(queries[0].Packed) == 0 {
		t.Errorf("Queries = %+v, want one question for a.test A over udp", queries)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := server.Wait(ended, "a.test", "A", 2); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with an ended context: got %v, want context.Canceled", err)
	}
}

func TestDNSCloseLetsHeldQuestionsGo(t *testing.T) {
	t.Parallel()
	server, err := evenkeeltest.NewDNS(evenkeeltest.DNSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.SetFault("held.test", "", evenkeeltest.DNSFault{Gate: make(chan struct{})}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	question := new(dns.Msg).SetQuestion("held.test.", dns.TypeA)
	if err := (&dns.Conn{Conn: conn}).WriteMsg(question); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(t.Context(), "held.test", "A", 1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read from the closed server: got %v, want EOF", err)
	}
}

func TestDNSTakenPort(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	if second, err := evenkeeltest.NewDNS(evenkeeltest.DNSConfig{Addr: server.Addr()}); err == nil {
		_ = second.Close()
		t.Error("two servers on one port: no error")
	}
}

func TestDNSOnIPv6(t *testing.T) {
	t.Parallel()
	need.IPv6(t)
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{Addr: "[::1]:0"})
	if !strings.HasPrefix(server.Addr(), "[::1]:") {
		t.Errorf("Addr = %s, want one of [::1]", server.Addr())
	}
	if reply := ask(t, server, "udp", "a.test", "A"); reply.Rcode != dns.RcodeNameError {
		t.Errorf("got %v, want NXDOMAIN", reply)
	}
}

func TestDNSFaultsOfEveryName(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	server.SetAddrs("a.test", netip.MustParseAddr("10.0.0.1"))
	for _, f := range []struct{ name, qtype, code string }{
		{"", "", "SERVFAIL"}, {"", "AAAA", "REFUSED"}, {"a.test", "", "FORMERR"}, {"a.test", "A", "NOTIMP"},
	} {
		if err := server.SetFault(f.name, f.qtype, evenkeeltest.DNSFault{Code: f.code}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, qtype, want string }{
		{"a.test", "A", "NOTIMP"}, {"a.test", "AAAA", "FORMERR"}, {"b.test", "AAAA", "REFUSED"}, {"b.test", "A", "SERVFAIL"},
	} {
		if got := dns.RcodeToString[ask(t, server, "udp", tt.name, tt.qtype).Rcode]; got != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.name, tt.qtype, got, tt.want)
		}
	}
	server.ClearFaults()
	if reply := ask(t, server, "udp", "a.test", "A"); len(reply.Answer) != 1 {
		t.Errorf("after ClearFaults: got\n%v", reply)
	}
	if err := server.SetFault("", "", evenkeeltest.DNSFault{Delay: 30 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if ask(t, server, "udp", "a.test", "A"); time.Since(began) < 30*time.Millisecond {
		t.Errorf("answer after %v, want at least 30ms", time.Since(began))
	}
}

func TestDNSKeepsTheNewestQuestionsAndCountsAll(t *testing.T) {
	t.Parallel()
	server := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	conn, err := dns.Dial("udp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	const questions = 20_100
	for i := range questions {
		name := "old.test."
		if i >= questions-100 {
			name = "new.test."
		}
		if err := conn.WriteMsg(new(dns.Msg).SetQuestion(name, dns.TypeA)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ReadMsg(); err != nil {
			t.Fatal(err)
		}
	}
	kept := server.Queries()
	if len(kept) != 10_000 || kept[len(kept)-100].Name != "new.test" || kept[len(kept)-101].Name != "old.test" {
		t.Errorf("kept %d questions, want the newest 10000", len(kept))
	}
	if before, after := server.Count("old.test", "A"), server.Count("new.test", "A"); before != questions-100 || after != 100 {
		t.Errorf("counted %d and %d, want %d and 100", before, after, questions-100)
	}
}

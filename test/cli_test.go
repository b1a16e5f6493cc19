// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	statusFailed = 1
	statusUsage  = 2
)

// secret stands in bad input and must never come out again.
const secret = "hunter2-never-shown"

// faultCase is a command that cannot do its work.
type faultCase struct {
	name   string
	args   []string
	status int
	says   []string // parts of the sentence: what is wrong, and what to do
}

// run runs the command to its end.
func run(ctx context.Context, t *testing.T, args ...string) (p *process, status int) {
	t.Helper()
	p = start(t, evenkeel, args...)
	return p, p.wait(ctx)
}

// checkFaults runs commands that cannot do their work.
func checkFaults(t *testing.T, tests []faultCase) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			busy(t)
			checkFault(t, tt)
		})
	}
}

// checkFault runs a command: one sentence on standard error, nothing on standard output, the right exit status.
func checkFault(t *testing.T, tt faultCase) {
	t.Helper()
	p, status := run(within(t), t, tt.args...)
	if status != tt.status {
		t.Errorf("exit status is %d, want %d", status, tt.status)
	}
	stderr := p.errs.String()
	for _, part := range tt.says {
		if !strings.Contains(stderr, part) {
			t.Errorf("standard error is %q, want %q in it", stderr, part)
		}
	}
	if got := p.out.String(); got != "" {
		t.Errorf("standard output is %q, want nothing", got)
	}
	// Wrong usage has a second line that says where to read more.
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	prefix, more := "evenkeel "+tt.args[0]+": ", "see evenkeel "+tt.args[0]+" --help"
	if tt.status == statusUsage && lines[len(lines)-1] == more {
		lines = lines[:len(lines)-1]
	}
	if len(lines) != 1 || !strings.HasPrefix(lines[0], prefix) {
		t.Errorf("standard error is %q, want one line that begins with %q", stderr, prefix)
	}
	if strings.Contains(stderr, secret) {
		t.Errorf("standard error shows the secret: %q", stderr)
	}
}

// What a real name server answers when it has no servers to name.
func TestCLIFaultsOfARealNameServer(t *testing.T) {
	t.Parallel()
	knot := startKnot(within(t), t, map[string][]string{
		"prod.test": {"_chronicle._tcp.empty TXT text-only", "empty A 127.0.0.1", "_chronicle._tcp.nothere SRV 0 0 0 ."},
	}).addr
	at := func(name string) string { return "chronicle+srv://" + name + "/?srvNameServer=" + knot }
	var tests []faultCase
	for _, command := range []string{"resolve", "probe"} {
		tests = append(tests, []faultCase{
			{
				name: command + " a name without SRV records", args: []string{command, at("empty.prod.test")}, status: statusFailed,
				says: []string{"_chronicle._tcp.empty.prod.test", knot, "name without SRV records", "add SRV records"},
			},
			{
				name: command + " a service that is not here", args: []string{command, at("nothere.prod.test")}, status: statusFailed,
				says: []string{"_chronicle._tcp.nothere.prod.test", knot, "name without SRV records", "the service is not there"},
			},
			{
				name: command + " a name that does not exist", args: []string{command, at("none.prod.test")}, status: statusFailed,
				says: []string{"_chronicle._tcp.none.prod.test", knot, "no such name (NXDOMAIN)", "check the name"},
			},
			{
				name: command + " a name in somebody else's zone", args: []string{command, at("other.example")}, status: statusFailed,
				says: []string{"_chronicle._tcp.other.example", knot, "name server failed (REFUSED)", "ask another one"},
			},
		}...)
	}
	checkFaults(t, tests)
}

// A name server that is not there.
func TestCLIFaultsOfAnUnreachableNameServer(t *testing.T) {
	t.Parallel()
	addr := freeDNSAddr(t)
	target := "chronicle+srv://prod.test/?srvNameServer=" + addr
	says := []string{"_chronicle._tcp.prod.test", addr, "name server failed", "check that a DNS server listens there"}
	checkFaults(t, []faultCase{
		{name: "resolve where nobody listens", args: []string{"resolve", target}, status: statusFailed, says: says},
		{name: "probe where nobody listens", args: []string{"probe", target}, status: statusFailed, says: says},
	})
}

// A name server that says nothing. It takes the five seconds of a lookup, so this test is not busy.
func TestCLIFaultOfASilentNameServer(t *testing.T) {
	t.Parallel()
	addr := silentAddr(t)
	checkFault(t, faultCase{
		args: []string{"resolve", "chronicle+srv://prod.test/?srvNameServer=" + addr}, status: statusFailed,
		says: []string{"_chronicle._tcp.prod.test", addr, "timed out", "check that the server can be reached"},
	})
}

// silentAddr is an address over UDP that takes everything and says nothing.
func silentAddr(t *testing.T) string {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := packets.Close(); err != nil {
			t.Error(err)
		}
	})
	return packets.LocalAddr().String()
}

// takenAddr is an address on which somebody else listens.
func takenAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func TestCLIFaultsOfServe(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issue("one.test")
	_, otherKey := ca.issue("two.test")
	missing := filepath.Join(ca.directory, "missing.pem")
	prose := ca.write("prose.pem", []byte("no PEM, but "+secret+"\n"))
	damaged := ca.write("damaged.pem", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	taken := takenAddr(t)
	with := func(cert, key string) []string {
		return []string{"serve", "--listen", "127.0.0.1:0", "--cert", cert, "--key", key}
	}
	tests := []faultCase{
		{
			name: "the port is taken", args: []string{"serve", "--listen", taken}, status: statusFailed,
			says: []string{taken, "is taken by another program", "stop that one, or give another --listen"},
		},
		{
			name: "the address belongs to another machine", args: []string{"serve", "--listen", "192.0.2.1:0"}, status: statusFailed,
			says: []string{"192.0.2.1:0", "is no address of this machine", "give one of its own"},
		},
		{
			name: "the certificate does not exist", args: with(missing, key), status: statusFailed,
			says: []string{"--cert", missing, "cannot be read", "no such file"},
		},
		{
			name: "the certificate is a directory", args: with(ca.directory, key), status: statusFailed,
			says: []string{"--cert", ca.directory, "cannot be read"},
		},
		{
			name: "the certificate is no PEM", args: with(prose, key), status: statusFailed,
			says: []string{"--cert", prose, "holds no certificate", "give one in PEM form"},
		},
		{
			name: "the certificate is damaged", args: with(damaged, key), status: statusFailed,
			says: []string{"--cert", damaged, "damaged", "give the file as its authority made it"},
		},
		{
			name: "the key does not exist", args: with(cert, missing), status: statusFailed,
			says: []string{"--key", missing, "cannot be read", "no such file"},
		},
		{
			name: "the key is no PEM", args: with(cert, prose), status: statusFailed,
			says: []string{"--key", prose, "holds no private key", "give one in PEM form"},
		},
		{
			name: "the key belongs to another certificate", args: with(cert, otherKey), status: statusFailed,
			says: []string{"--key", otherKey, "does not belong to the first certificate in", cert, "give the key that it was made for"},
		},
		{
			name: "a certificate without a key", args: []string{"serve", "--cert", cert}, status: statusUsage,
			says: []string{"--cert and --key belong together"},
		},
	}
	if os.Getuid() > 0 { // root reads what it likes, and Windows knows no such mode
		locked := ca.write("locked.pem", nil)
		if err := os.Chmod(locked, 0); err != nil {
			t.Fatal(err)
		}
		tests = append(tests, faultCase{
			name: "the certificate is not ours to read", args: with(locked, key), status: statusFailed,
			says: []string{"--cert", locked, "cannot be read", "permission denied"},
		})
	}
	checkFaults(t, tests)
}

func TestCLIFaultsOfConnect(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	nobody := freeDNSAddr(t)
	s := serve(ctx, t, loopback(1))
	missing := filepath.Join(t.TempDir(), "missing.pem")
	checkFaults(t, []faultCase{
		{
			name: "roots that do not exist", args: []string{"connect", "--ca", missing, "chronicle://" + nobody}, status: statusFailed,
			says: []string{"--ca", missing, "cannot be read", "no such file"},
		},
		{
			name: "roots of a probe that do not exist", args: []string{"probe", "--ca", missing, "chronicle://" + nobody},
			status: statusFailed, says: []string{"--ca", missing, "cannot be read", "no such file"},
		},
	})
	tests := []struct {
		name, target string
		says         []string
	}{
		{
			name: "a server that refuses", target: "chronicle://" + nobody,
			says: []string{"dial " + nobody, "connection refused"},
		},
		{
			name: "a certificate that nobody vouches for", target: "chronicle://" + s.Listening,
			says: []string{"dial " + s.Listening, "certificate", "trust its authority with --ca", "skipTlsValidation=true"},
		},
		{
			name: "a name server that is not there", target: "chronicle+srv://prod.test/?srvNameServer=" + nobody,
			says: []string{"_chronicle._tcp.prod.test", nobody, "name server failed", "check that a DNS server listens there"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			busy(t)
			checkNoSession(t, tt.target, tt.says)
		})
	}
}

// checkNoSession lets a client try in vain until it backs off, interrupts it, and checks what is said of it.
func checkNoSession(t *testing.T, target string, says []string) {
	t.Helper()
	ctx := within(t)
	c := connect(t, target, 1)
	c.awaitOutput(ctx, "its client to back off", func(lines []string) bool {
		return slices.ContainsFunc(c.parse(lines), func(e connectEvent) bool { return e.Event == "backing off" })
	})
	if status := c.interrupt(ctx); status != statusFailed {
		t.Errorf("exit status is %d, want %d", status, statusFailed)
	}
	stderr := c.errs.String()
	for _, part := range append(says, "had no session at the end") {
		if !strings.Contains(stderr, part) {
			t.Errorf("standard error is %q, want %q in it", stderr, part)
		}
	}
	if strings.Count(stderr, "\n") != 1 {
		t.Errorf("standard error is %q, want one line", stderr)
	}
	lines, _ := c.out.snapshot()
	var summary connectSummary
	strict(t, lines[len(lines)-1], &summary)
	if !summary.Summary || summary.Clients != 1 || summary.Ready != 0 || summary.FailedAttempts == 0 || summary.Recovery != nil {
		t.Errorf("summary is %+v, want a client that is not ready", summary)
	}
	dialled := !strings.Contains(stderr, "look up ") // else there was no server for anything to go wrong at
	if dialled != (len(summary.Causes) == 1 && strings.HasPrefix(summary.Causes[0].Cause, "dial: ")) {
		t.Errorf("causes are %+v, want that of the dial where there was one", summary.Causes)
	}
}

// Connection strings that cannot be read are wrong usage, and the error shows no secret.
func TestCLIFaultsOfConnectionStrings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, target string
		says         []string
	}{
		{"no string at all", "", []string{"no connection string", "CHRONICLE_CONNECTION_STRING"}},
		{"another scheme", "https://app:" + secret + "@node1", []string{"chronicle"}},
		{"a port that is none", "chronicle://node1:0", []string{"port"}},
		{"a bare IPv6 address", "chronicle://::1", []string{"brackets"}},
		{"a slash in the password", "chronicle://app:12/" + secret + "@node1", nil},
		{"a user without a password", "chronicle://app@node1", []string{"password"}},
		{"an unknown option", "chronicle://node1/?loadBalancr=" + secret, []string{"loadBalancer"}},
		{"a value that is none", "chronicle://node1/?loadBalancer=fastest", []string{"loadBalancer", "round-robin"}},
		{"TLS switched off", "chronicle://node1/?disableTls=true", []string{"TLS"}},
		{"a list of SRV names", "chronicle+srv://a.test,b.test", []string{"one"}},
		{"two kinds of credentials", "chronicle://app:" + secret + "@node1/?apiKey=" + secret, []string{"apiKey"}},
	}
	var faults []faultCase
	for _, tt := range tests {
		for _, command := range []string{"resolve", "probe", "connect"} {
			args := []string{command}
			if tt.target != "" {
				args = append(args, tt.target)
			}
			faults = append(faults, faultCase{name: command + " with " + tt.name, args: args, status: statusUsage, says: tt.says})
		}
	}
	checkFaults(t, faults)
}

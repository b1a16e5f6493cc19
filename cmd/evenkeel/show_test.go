// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/dial"
)

var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

// someObservations are a round of probes with everything that can be in one.
func someObservations() []candidate {
	leaf := func(subject, issuer string, days int) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: subject}, Issuer: pkix.Name{CommonName: issuer},
			NotAfter: noon.Add(time.Duration(days)*24*time.Hour + time.Hour),
		}}}
	}
	seen := []balance.Observation{
		observed("node1.test", 0, 10, 12), observed("node2.test", 0, 20, 23), observed("node3.test", 0, 10, noCount),
		observed("node4.test", 0, 10, noCount), observed("node5.test", 1, 10, 0), observed("node6.test", 1, 10, noConnection),
	}
	seen[0].Count.TLS, seen[0].Count.RTT, seen[0].Count.Proto = leaf("node1.test", "Our CA", 90), 412*time.Microsecond, "HTTP/2.0"
	seen[0].Count.Addr = netip.MustParseAddrPort("192.0.2.1:35000")
	seen[1].Count.TLS, seen[1].Count.RTT, seen[1].Count.Proto = leaf("evil\x1b[31m", "Our CA", -3), 1234*time.Millisecond, "HTTP/1.1"
	seen[2].Err = &balance.ProbeError{Endpoint: seen[2].Endpoint, Op: "count", Err: context.DeadlineExceeded}
	seen[3].Err = &balance.ProbeError{Endpoint: seen[3].Endpoint, Op: "count", Status: 503}
	seen[4].Count.RTT, seen[4].Count.Proto = 5*time.Millisecond, "HTTP/2.0"
	seen[5].Err = &balance.ProbeError{Endpoint: seen[5].Endpoint, Op: "count", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	return candidates(seen)
}

func TestProbePicture(t *testing.T) {
	t.Parallel()
	seen := someObservations()
	chance := chances(connstring.LeastConnections, seen)
	r := round{seen: seen, chance: chance, at: noon}
	lines := append(r.table(palette{}, 0), "", verdict(connstring.LeastConnections, seen, chance))
	golden(t, "probe-plain", visible(lines))
	golden(t, "probe-colour", visible(r.table(newPalette(true), 0)))
}

// TestProbePictureOnATerminal draws the same for terminals that are too narrow for it.
func TestProbePictureOnATerminal(t *testing.T) {
	t.Parallel()
	differ, equal := someObservations(), someObservations()[2:4]
	equal = append(equal, someObservations()[0])
	for name, tt := range map[string]struct {
		seen  []candidate
		width int
	}{
		"probe-80": {differ, 80}, "probe-60": {differ, 60}, "probe-80-equal": {equal, 80}, "probe-60-equal": {equal, 60},
	} {
		r := round{seen: tt.seen, chance: chances(connstring.LeastConnections, tt.seen), at: noon}
		lines := r.table(newPalette(true), tt.width)
		for _, line := range lines {
			if w := ansi.StringWidth(line); w > tt.width {
				t.Errorf("%s: a line of %d columns, want %d at most: %q", name, w, tt.width, line)
			}
		}
		golden(t, name, visible(lines))
	}
}

func TestProbeJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &probing{console: newConsole(nil, nil, &out, io.Discard), asJSON: true, balancer: connstring.Random, rounds: 3, fitting: &fitting{}}
		seen := someObservations()
		p.show(round{seen: seen, chance: chances(p.balancer, seen), at: noon})
		golden(t, "probe-json", out.String())
	})
}

func TestConnectEventLines(t *testing.T) {
	t.Parallel()
	lost := at(0, 7, evenkeel.EventLost, "a")
	lost.Err = evenkeel.ErrSilent
	connected := at(0, 7, evenkeel.EventConnected, "b")
	connected.Observations = []balance.Observation{observed("c", 0, 0, 4), observed("a", 0, 0, noCount), observed("b", 0, 0, 3)}
	connected.Endpoint = connected.Observations[2].Endpoint
	refused := at(0, 7, evenkeel.EventCandidateFailed, "a")
	refused.Err = &evenkeel.EndpointError{
		Endpoint: refused.Endpoint, Step: evenkeel.StepDial, Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
	}
	waiting := at(0, 7, evenkeel.EventBackingOff, "")
	waiting.Wait, waiting.Err = 1500*time.Millisecond, &evenkeel.AttemptError{Err: discover.ErrNoRecords}
	partial := resolved("a")
	partial.Err = &discover.StaleError{Cause: discover.ErrTimeout, At: noon}
	tests := []struct {
		name  string
		event fleetEvent
		since time.Duration
		want  string
	}{
		{name: "connected", event: connected, want: "client 7   connected to b:35000 (had 3; others 4)"},
		{name: "recovered", event: at(0, 7, evenkeel.EventConnected, "b"), since: 123 * time.Millisecond, want: "client 7   connected to b:1, 123.0ms after the loss"},
		{name: "lost", event: lost, want: "client 7   lost a:1: no keep-alive from the server for 5 s"},
		{name: "refused", event: refused, want: "client 7   dial a:1: tls: failed to verify certificate: x509: certificate signed by unknown authority; trust its authority with --ca, or, in development, put skipTlsValidation=true into the connection string"},
		{name: "backing off", event: waiting, want: "client 7   no session, next attempt in 1.5s: name without SRV records"},
		{name: "an old answer", event: partial, want: "client 1   using the endpoints found at 2030-06-01T12:00:00Z: timed out"},
		{name: "a good answer", event: resolved("a")},
		{name: "a pick", event: at(0, 7, evenkeel.EventSelected, "a")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			line := strings.Join(new(holding).eventLines(palette{}, tt.event, tt.since, tt.since > 0, 0), "\n")
			_, text, _ := strings.Cut(line, "  ")
			if text != tt.want {
				t.Errorf("line\n got %q\nwant %q", text, tt.want)
			}
		})
	}
}

// TestEventLinesAreIndentedAlike, whether they had to be broken or not.
func TestEventLinesAreIndentedAlike(t *testing.T) {
	t.Parallel()
	long, short := at(0, 1, evenkeel.EventCandidateFailed, "a"), at(0, 2, evenkeel.EventConnected, "b")
	long.Err = refusedFor(x509.UnknownAuthorityError{})
	for _, width := range []int{30, 60, 80} {
		lines := new(holding).eventLines(newPalette(true), long, 0, false, width)
		for i, line := range lines {
			line = ansi.Strip(line)
			if ansi.StringWidth(line) > width && !strings.HasPrefix(line, "00:") {
				t.Errorf("a line of %d columns, want %d at most: %q", ansi.StringWidth(line), width, line)
			}
			if i == 0 && !strings.HasPrefix(line[len("00:00:00.000"):], "  client 1") {
				t.Errorf("width %d: got %q, want two blanks before the client", width, line)
			}
		}
		if len(lines) < 3 {
			t.Errorf("width %d: got %q, want it broken", width, lines)
		}
	}
	if got := new(holding).eventLines(palette{}, short, 0, false, 80); len(got) != 1 || got[0][len("00:00:00.000"):] != "  client 2   connected to b:1" {
		t.Errorf("got %q", got)
	}
}

// TestTheClockOfConnectDoesNotRunBeyondItsEnd.
func TestTheClockOfConnectDoesNotRunBeyondItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &holding{began: time.Now(), length: 800 * time.Millisecond}
		time.Sleep(640 * time.Millisecond)
		if got, want := h.clock(), "600ms of 800ms"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		time.Sleep(time.Second)
		if got, want := h.clock(), "800ms of 800ms"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestProgressOfManyClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out, progress bytes.Buffer
		h := &holding{console: newConsole(nil, nil, &out, &progress), clients: 20, began: time.Now()}
		v := newConnectView(h)
		feed := func(events ...fleetEvent) {
			for _, e := range events {
				since, recovered := h.tally.apply(e)
				v.event(e, since, recovered)
			}
		}
		for client := 1; client <= 20; client++ {
			feed(at(client, client, evenkeel.EventConnected, "a"))
		}
		time.Sleep(calmFrame)
		v.frame(time.Now())
		feed(at(100, 3, evenkeel.EventLost, "a"), at(150, 4, evenkeel.EventLost, "a"), at(200, 4, evenkeel.EventConnected, "b"))
		v.frame(time.Now()) // too early for a table and for another line
		time.Sleep(calmFrame)
		v.frame(time.Now())
		v.summary(connectSummary{Clients: 20, Ready: 19, Connections: h.tally.connections(), Recovery: summarise(h.tally.recoveries)})
		golden(t, "connect-lines", out.String()+"--\n"+progress.String())
	})
}

// refusedFor is the failure of a client that does not trust its server.
func refusedFor(cause error) error {
	return &evenkeel.AttemptError{Failures: []*evenkeel.EndpointError{{
		Endpoint: discover.Endpoint{Host: "a", Port: 1}, Step: evenkeel.StepDial, Err: &tls.CertificateVerificationError{Err: cause},
	}}}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	node := func(host string) *evenkeel.EndpointError {
		return &evenkeel.EndpointError{Endpoint: discover.Endpoint{Host: host, Port: 1}, Step: evenkeel.StepConnect, Err: io.ErrUnexpectedEOF}
	}
	tests := []struct {
		name string
		err  error
		want string
	}{
		{name: "one server", err: &evenkeel.AttemptError{Failures: []*evenkeel.EndpointError{node("a")}}, want: "connect a:1: unexpected EOF"},
		{
			name: "several", err: &evenkeel.AttemptError{Failures: []*evenkeel.EndpointError{node("a"), node("b"), node("c")}},
			want: "connect a:1: unexpected EOF (and 2 more servers failed)",
		},
		{
			name: "no servers known", err: &evenkeel.AttemptError{Err: &discover.LookupError{Name: "x", Kind: discover.ErrTimeout}},
			want: "look up SRV records of x: timed out; check the machine's name servers, or name one with srvNameServer",
		},
		{
			name: "another name", err: refusedFor(x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"b"}}, Host: "a"}),
			want: "dial a:1: tls: failed to verify certificate: x509: certificate is valid for b, not a; name the server as its certificate does, or, in development, put skipTlsValidation=true into the connection string",
		},
		{
			name: "expired", err: refusedFor(x509.CertificateInvalidError{Reason: x509.Expired, Detail: "long ago"}),
			want: "dial a:1: tls: failed to verify certificate: x509: certificate has expired or is not yet valid: long ago; renew it, or set the clock of this machine, or, in development, put skipTlsValidation=true into the connection string",
		},
		{
			name: "no name at all", err: refusedFor(x509.HostnameError{Certificate: &x509.Certificate{Subject: pkix.Name{CommonName: "a"}}, Host: "a"}),
			want: "dial a:1: tls: failed to verify certificate: x509: certificate relies on legacy Common Name field, use SANs instead; have one made that has the server's name as a subjectAltName, or, in development, put skipTlsValidation=true into the connection string",
		},
		{
			name: "not for servers", err: refusedFor(x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}),
			want: "dial a:1: tls: failed to verify certificate: x509: certificate specifies an incompatible key usage; have one made for servers, with the extended key usage serverAuth, or, in development, put skipTlsValidation=true into the connection string",
		},
		{
			name: "no token in time", err: &evenkeel.EndpointError{
				Endpoint: discover.Endpoint{Host: "a", Port: 1}, Step: evenkeel.StepToken,
				Err: &credential.TokenError{Place: "a:1/connect/token", Reason: credential.ReasonTimeout, Err: context.DeadlineExceeded},
			},
			want: "token a:1: ask a:1/connect/token for a token: no answer in time: context deadline exceeded; it takes connections: see that server's log",
		},
		{name: "something else", err: errStillConnecting, want: errStillConnecting.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := (adviser{}).explain(tt.err); got.Error() != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	if got, want := printable("a\x1b[2Jb\nc\u202ed", 64), "a?[2Jb?c?d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := printable(strings.Repeat("ä", 10), 4), "äää…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProbeAdvice(t *testing.T) {
	t.Parallel()
	connected := netip.MustParseAddrPort("192.0.2.1:1")
	none := netip.AddrPort{}
	tests := []struct {
		name      string
		err       error
		addr      netip.AddrPort
		plaintext bool
		want      string
	}{
		{
			name: "refused", addr: none, want: "check that a server runs there",
			err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		},
		{
			name: "refused in plaintext", addr: none, plaintext: true, want: "check that a server runs there",
			err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		},
		{name: "no connection in time", addr: none, err: context.DeadlineExceeded, want: "check that a server runs there"},
		{name: "no such name", addr: none, err: &net.DNSError{IsNotFound: true}, want: "check the name"},
		{name: "name servers down", addr: none, err: &net.DNSError{IsTimeout: true}, want: "check the machine's name servers"},
		{name: "a status", addr: connected, err: &balance.ProbeError{Status: 415}, want: "something answers there that does not tell its connections"},
		{
			name: "a status in plaintext", addr: connected, plaintext: true, err: &balance.ProbeError{Status: 404},
			want: "something answers there that does not tell its connections",
		},
		{name: "no count", addr: connected, err: &balance.ProbeError{Status: 200, Err: balance.ErrNotCount}, want: "something answers there"},
		{name: "silent", addr: connected, err: context.DeadlineExceeded, want: "it takes connections: see that server's log"},
		{name: "silent in plaintext", addr: connected, plaintext: true, err: context.DeadlineExceeded, want: "see that server's log"},
		{name: "hung up", addr: connected, err: &balance.ProbeError{Err: io.EOF}, want: "something takes connections there: check the port"},
		{name: "hung up on plaintext", addr: connected, plaintext: true, err: &balance.ProbeError{Err: io.EOF}, want: "may want TLS: leave out --plaintext"},
		{name: "no TLS", addr: none, err: tls.RecordHeaderError{}, want: "speaks no TLS: if that is meant, give --plaintext"},
		{name: "no trust", addr: none, err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, want: "trust its authority with --ca"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := balance.Observation{Count: balance.Count{Addr: tt.addr}, Err: tt.err}
			if got := (adviser{plaintext: tt.plaintext}).probeAdvice(o); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q in it", got, tt.want)
			}
		})
	}
}

// TestAdviceKnowsWhatWasGiven: what the user has done already is no advice.
func TestAdviceKnowsWhatWasGiven(t *testing.T) {
	t.Parallel()
	unknown := refusedFor(x509.UnknownAuthorityError{})
	refused := &evenkeel.EndpointError{Endpoint: discover.Endpoint{Host: "a", Port: 1}, Step: evenkeel.StepConnect, Err: evenkeel.ErrUnauthenticated}
	tests := []struct {
		name    string
		adviser adviser
		err     error
		want    string
	}{
		{"no roots", adviser{}, unknown, "; trust its authority with --ca, or"},
		{"other roots", adviser{ca: true}, unknown, "; its authority is not in the --ca file: add it there, or"},
		{"no credentials", adviser{auth: connstring.AuthModeNone}, refused, "; give credentials that the server takes: user:password@ in front of the host"},
		{"a password", adviser{auth: connstring.AuthModeClientCredentials}, refused, "; check the user and the password in the connection string"},
		{"an API key", adviser{auth: connstring.AuthModeAPIKey}, refused, "; a server that asks for tokens looks at no API key: give user:password@"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.adviser.explain(tt.err).Error(); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q in it", got, tt.want)
			}
		})
	}
}

// TestConnectJSONAdvisesUsersOfTheCommand, who have flags and no options.
func TestConnectJSONAdvisesUsersOfTheCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		h := &holding{console: newConsole(nil, nil, &out, io.Discard), asJSON: true, clients: 1}
		failed := at(0, 1, evenkeel.EventCandidateFailed, "a")
		failed.Err = &evenkeel.EndpointError{
			Endpoint: failed.Endpoint, Step: evenkeel.StepDial, Err: &dial.ProxyError{Proxy: "192.0.2.1:3128", Status: 403},
		}
		newConnectView(h).event(failed, 0, false)
		if got := out.String(); strings.Contains(got, "WithNoProxy") || !strings.Contains(got, "--no-proxy") {
			t.Errorf("got %s, want the flag and not the option", got)
		}
	})
}

// TestProbeTellsCapacitiesAndDraining in the table and in JSON.
func TestProbeTellsCapacitiesAndDraining(t *testing.T) {
	t.Parallel()
	stopping := draining(observed("b", 0, 0, noCount))
	stopping.Err = &balance.ProbeError{Endpoint: stopping.Endpoint, Op: "count", Addr: stopping.Count.Addr, Status: 503}
	seen := candidates([]balance.Observation{sized(observed("a", 0, 0, 4), 10), stopping})
	r := round{seen: seen, chance: chances(connstring.LeastConnections, seen), at: noon}
	golden(t, "probe-draining", visible(r.table(palette{}, 0)))
	var out bytes.Buffer
	p := &probing{console: newConsole(nil, nil, &out, io.Discard), asJSON: true, balancer: connstring.LeastConnections}
	p.show(r)
	for _, want := range []string{`"capacity":10,`, `"draining":true,`} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("got %s, want %s once", out.String(), want)
		}
	}
}

// TestAProxyIsNamedInTheTable, since what it refuses says nothing of the server.
func TestAProxyIsNamedInTheTable(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for want, proxy := range map[string]*dial.ProxyError{
		"proxy 192.0.2.1:3128: connection refused":                              {Proxy: "192.0.2.1:3128", Err: refused},
		"proxy 192.0.2.1:3128: status 407 Proxy Authentication Required":        {Proxy: "192.0.2.1:3128", Status: 407},
		"proxy: the proxy in HTTPS_PROXY cannot be read: give http://host:port": {Err: errors.New("the proxy in HTTPS_PROXY cannot be read: give http://host:port")},
	} {
		if got := whyNot(&balance.ProbeError{Op: "count", Err: proxy}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestProbeSaysOfWhomItSpeaks counts servers as people do.
func TestProbeSaysOfWhomItSpeaks(t *testing.T) {
	t.Parallel()
	refused := observed("a", 0, 0, noConnection)
	refused.Err = &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	want := "connection refused; check that a server runs there and that the port can be reached"
	for seen, begins := range map[int]string{1: "a:35000 gave no count: ", 3: "none of 3 servers gave a count; a:35000: "} {
		if got := new(probing).noneUsable(slices.Repeat(candidates([]balance.Observation{refused}), seen)).Error(); got != begins+want {
			t.Errorf("%d servers:\n got %s\nwant %s", seen, got, begins+want)
		}
	}
}

// failingWriter fails from a certain byte on, as a full disk does.
type failingWriter struct{ room int }

var errFull = errors.New("no space left")

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestALostResultIsAFailure(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"version"},
		{"version", "--json"},
		{"--help"},
		{"resolve", "chronicle://a,b,c"},
		{"resolve", "--json", "chronicle://a,b,c"},
		{"resolve", "--watch", "dns:///localhost"},
		{"probe", "chronicle://127.0.0.1:1"},
		{"probe", "--watch", "chronicle://127.0.0.1:1"},
		{"connect", "--for", "1m", "--jitter", "0", "--json", "chronicle://127.0.0.1:1"},
		{"serve", "--listen", "127.0.0.1:0"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			status := run(t.Context(), args, nil, strings.NewReader(""), &failingWriter{room: 10}, &stderr)
			if want := "standard output cannot be written: no space left"; status != exitFailed || !strings.Contains(stderr.String(), want) {
				t.Errorf("status %d, want %d and %q: %s", status, exitFailed, want, stderr.String())
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	c := newConsole([]string{"A=1", "AB=2", "A=3"}, nil, io.Discard, io.Discard)
	if got, found := c.getenv("A"); got != "3" || !found {
		t.Errorf("got %q, %v, want the last value, 3", got, found)
	}
	if got, found := c.getenv("B"); got != "" || found {
		t.Errorf("got %q, %v, want nothing", got, found)
	}
	if c.outScreen.live() || c.outScreen.colour {
		t.Error("something that is no file is taken for a terminal")
	}
}

func TestBoundedText(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{name: "no newline", in: "x", want: "x"},
		{name: "one newline", in: "x\n", want: "x"},
		{name: "two newlines", in: "x\n\n", want: "x\n"},
		{name: "carriage return and newline", in: "x\r\n", want: "x"},
		{name: "carriage return alone", in: "x\r", want: "x\r"},
		{name: "only blank", in: " \n", want: " "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := boundedText("it", strings.NewReader(tt.in))
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	endless := call(t, nil, "chronicle://"+strings.Repeat("a,", connstring.MaxLength), "resolve", "-")
	if endless.status != exitUsage || !strings.Contains(endless.stderr, "longer than 65536 bytes") {
		t.Errorf("an endless string: status %d, %s", endless.status, endless.stderr)
	}
}

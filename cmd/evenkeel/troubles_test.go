// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/credential"
)

// failing is the event of a candidate that failed.
func failing(ms int, host string, step evenkeel.Step, err error) fleetEvent {
	e := at(ms, 1, evenkeel.EventCandidateFailed, host)
	e.Err = &evenkeel.EndpointError{Endpoint: e.Endpoint, Step: step, Err: err}
	return e
}

// losing is the event of a session that was lost.
func losing(ms int, host string, err error) fleetEvent {
	e := at(ms, 1, evenkeel.EventLost, host)
	e.Err = err
	return e
}

func TestTroublesAreTalliedByServerAndCause(t *testing.T) {
	t.Parallel()
	var all troubles
	broken := func(port int) error {
		return fmt.Errorf("%w: %w", evenkeel.ErrTransportLost, &net.OpError{Op: "read", Source: &net.TCPAddr{Port: port}, Err: syscall.ECONNRESET})
	}
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, e := range []fleetEvent{
		at(0, 1, evenkeel.EventConnected, "a"), losing(1000, "a", broken(1)), losing(3000, "a", broken(2)), losing(2000, "b", broken(3)),
		losing(4000, "a", evenkeel.ErrSilent), failing(4100, "a", evenkeel.StepDial, refused), at(5000, 1, evenkeel.EventBackingOff, ""),
	} {
		all.note(e)
	}
	var got []string
	for _, one := range all.list() {
		got = append(got, fmt.Sprintf("%d %s %d-%d %s", one.Count, one.Endpoint, one.First.UnixMilli(), one.Last.UnixMilli(), one.Cause))
	}
	want := []string{
		"2 a:1 1000-3000 session lost: connection to the server lost",
		"1 b:1 2000-2000 session lost: connection to the server lost",
		"1 a:1 4000-4000 session lost: no keep-alive from the server for 5 s",
		"1 a:1 4100-4100 dial: connection refused",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTroublesAreBounded(t *testing.T) {
	t.Parallel()
	var all troubles
	for i := range 2 * maxTroubles {
		all.note(losing(i, fmt.Sprintf("server%d", i), errors.New(strings.Repeat("x", 500)+"\x1b[31m")))
	}
	if len(all.all) != maxTroubles {
		t.Errorf("%d are kept, want %d", len(all.all), maxTroubles)
	}
	lines := troubleTable(palette{}, all.list(), 80)
	if len(lines) > 5*shownTroubles || !strings.Contains(strings.Join(lines, "\n"), "and 246 more kinds") {
		t.Errorf("%d lines, want a few and how many more there are: %q", len(lines), lines[len(lines)-2:])
	}
	for _, line := range lines {
		if strings.ContainsRune(line, '\x1b') {
			t.Errorf("a line does something to a terminal: %q", line)
		}
	}
	if troubleTable(palette{}, nil, 80) != nil {
		t.Error("there is a table of nothing")
	}
	narrow := troubleTable(palette{}, []trouble{{Endpoint: "node1.test:35000", Cause: "session lost: connection to the server lost", Count: 3}}, 60)
	for _, line := range narrow {
		if ansi.StringWidth(line) > 60 {
			t.Errorf("a line of %d columns: %q", ansi.StringWidth(line), line)
		}
	}
}

func TestCausesInAFewWords(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"the server's certificate is refused":               &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"no answer in time":                                 fmt.Errorf("no keep-alive answered: %w", context.DeadlineExceeded),
		"unexpected status: status 503 Service Unavailable": &credential.TokenError{Place: "a:1/connect/token", Reason: credential.ReasonStatus, Status: 503},
		"the server refuses the client's credentials":       fmt.Errorf("%w: %w", evenkeel.ErrUnauthenticated, &credential.TokenError{Reason: credential.ReasonRefused}),
		"something": errors.New("evenkeel: something"),
	} {
		if got := causeText(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestTheFirstRefusalIsNotHiddenByThoseThatFollow: wrong credentials, shown often, end in another status.
func TestTheFirstRefusalIsNotHiddenByThoseThatFollow(t *testing.T) {
	t.Parallel()
	clients := write(t, t.TempDir(), "clients.txt", "app:right\n")
	r, listening := beginServer(t, "--auth", "token", "--clients", clients)
	began := time.Now()
	got := call(t, nil, "", "connect", "--plaintext", "--clients", "40", "--for", "2s", "--jitter", "0", "chronicle://app:wr0ng@"+listening)
	want := "the credentials were refused (invalid_client, status 401); check the user and the password in the connection string"
	if got.status != exitFailed || !strings.Contains(got.stderr, want) {
		t.Errorf("status %d after %v, standard error %q, want %q", got.status, time.Since(began), got.stderr, want)
	}
	if want := "token: the server refuses the client's credentials"; !strings.Contains(got.stdout, want) {
		t.Errorf("got %q, want %q in the table of what went wrong", got.stdout, want)
	}
	if _, status := r.end(); status != exitDone {
		t.Errorf("serve: status %d", status)
	}
}

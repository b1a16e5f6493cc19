// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// running is a command that runs in this process until it is interrupted.
type running struct {
	t         *testing.T
	lines     *bufio.Scanner
	stderr    *bytes.Buffer
	interrupt func()
	status    chan int
}

// tooLong ends a command from which a line is awaited that never comes.
const tooLong = 30 * time.Second

// begin starts the command. Its output has to be read to the end.
func begin(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	reader, writer := io.Pipe()
	r := &running{
		t: t, lines: bufio.NewScanner(reader), stderr: new(bytes.Buffer),
		interrupt: func() { cancel(errInterrupted) }, status: make(chan int, 1),
	}
	watchdog := time.AfterFunc(tooLong, r.interrupt)
	t.Cleanup(func() {
		watchdog.Stop()
		r.interrupt()
	})
	go func() {
		r.status <- run(ctx, args, nil, strings.NewReader(""), writer, r.stderr)
		_ = writer.Close() // a pipe's Close returns nil
	}()
	return r
}

// line returns the next line; the test ends when there is none.
func (r *running) line() string {
	r.t.Helper()
	if !r.lines.Scan() {
		r.t.Fatalf("the output ended too early; standard error: %s", r.stderr)
	}
	return r.lines.Text()
}

// until reads lines until enough have held.
func (r *running) until(n int, holds func(line string) bool) {
	r.t.Helper()
	for found := 0; found < n; {
		if holds(r.line()) {
			found++
		}
	}
}

// end interrupts the command and returns the last line and the status.
func (r *running) end() (last string, status int) {
	r.t.Helper()
	r.interrupt()
	for r.lines.Scan() {
		last = r.lines.Text()
	}
	return last, <-r.status
}

// caFile writes the authority of a cluster to a file.
func caFile(t *testing.T, cluster *evenkeeltest.Cluster) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, cluster.CAPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestServeEndsWhenInterrupted(t *testing.T) {
	t.Parallel()
	r := begin(t, "serve", "--listen", "127.0.0.1:0", "--json", "--name", "here")
	var report serveReport
	if err := json.Unmarshal([]byte(r.line()), &report); err != nil {
		t.Fatal(err)
	}
	if report.Name != "here" || strings.HasSuffix(report.Listening, ":0") {
		t.Errorf("got %+v, want the name given and a real port", report)
	}
	probed := call(t, nil, "", "probe", report.ConnectionString)
	if probed.status != exitDone {
		t.Errorf("probe of the string that serve printed: status %d, %s", probed.status, probed.stderr)
	}
	if _, status := r.end(); status != exitDone {
		t.Errorf("status %d, want %d; %s", status, exitDone, r.stderr)
	}
}

func TestProbeWatchesUntilInterrupted(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	r := begin(t, "probe", "--watch", "--interval", "100ms", "--json", "--ca", caFile(t, cluster), cluster.SRVConnectionString())
	r.until(2, func(line string) bool { return strings.Contains(line, `"round":2`) })
	if err := cluster.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	r.until(1, func(line string) bool {
		return !strings.Contains(line, `"connections"`) && strings.Contains(line, "refused")
	})
	if _, status := r.end(); status != exitDone {
		t.Errorf("with one server left: status %d, want %d", status, exitDone)
	}
}

func TestProbeWatchEndsAsItsLastRoundDid(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	r := begin(t, "probe", "--watch", "--interval", "100ms", "--ca", caFile(t, cluster), cluster.ConnectionString())
	r.until(1, func(line string) bool { return strings.Contains(line, "picks") })
	if err := cluster.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	r.until(2, func(line string) bool { return strings.Contains(line, "connection refused") })
	if _, status := r.end(); status != exitFailed {
		t.Errorf("with no server left: status %d, want %d", status, exitFailed)
	}
}

func TestConnectTellsOfALossAndOfTheRecovery(t *testing.T) {
	t.Parallel()
	const clients = 6
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	r := begin(t, "connect", "--clients", "6", "--for", "0", "--jitter", "20ms", "--json",
		"--ca", caFile(t, cluster), cluster.SRVConnectionString())
	var events []connectEvent
	read := func(line string) connectEvent {
		var e connectEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		events = append(events, e)
		return e
	}
	r.until(clients, func(line string) bool { return read(line).Event == "connected" })
	victim := serverKey(cluster.Servers[0])
	orphans := 0
	for _, e := range events {
		if e.Event == "connected" && e.Endpoint == victim {
			orphans++
		}
		if e.Event == "selected" && len(e.Counts) != 2 {
			t.Errorf("selected without the counts of both servers: %+v", e)
		}
	}
	if err := cluster.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	r.until(orphans, func(line string) bool {
		e := read(line)
		return e.Event == "connected" && e.SinceLost != nil && *e.SinceLost > 0 && e.Generation == 2
	})
	if !slices.ContainsFunc(events, func(e connectEvent) bool { return e.Event == "lost" && e.Endpoint == victim && e.Error != "" }) {
		t.Error("no event tells of the loss and its cause")
	}
	last, status := r.end()
	var sum connectSummary
	if err := json.Unmarshal([]byte(last), &sum); err != nil {
		t.Fatalf("%v in %s", err, last)
	}
	if status != exitDone || !sum.Summary || sum.Clients != clients || sum.Ready != clients || sum.Lost != orphans {
		t.Errorf("status %d, summary %+v, want 0 and %d clients ready after %d losses", status, sum, clients, orphans)
	}
	if want := map[string]int{victim: 0, serverKey(cluster.Servers[1]): clients}; sum.Connections[victim] != 0 || len(sum.Connections) != len(want) {
		t.Errorf("connections %v, want %v", sum.Connections, want)
	}
	if sum.Recovery == nil || sum.Recovery.Count != orphans || sum.Recovery.Max < sum.Recovery.Median {
		t.Errorf("recovery %+v, want that of %d clients", sum.Recovery, orphans)
	}
}

func TestConnectFailsWhenAClientHasNoSessionAtTheEnd(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	r := begin(t, "connect", "--clients", "2", "--for", "0", "--jitter", "0", "--ca", caFile(t, cluster), cluster.ConnectionString())
	r.until(2, func(line string) bool { return strings.Contains(line, "connected to") })
	if err := cluster.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	r.until(2, func(line string) bool { return strings.Contains(line, "next attempt in") })
	if last, status := r.end(); status != exitFailed || last != "0 of 2 clients ready" {
		t.Errorf("status %d after %q, want %d after a summary", status, last, exitFailed)
	}
	if text := r.stderr.String(); !strings.Contains(text, "2 of 2 clients had no session at the end: client 1: ") {
		t.Errorf("standard error does not tell why: %s", text)
	}
}

// A pipe or a terminal may say nothing for ever.
func TestInterruptedWhileInputIsAwaited(t *testing.T) {
	t.Parallel()
	silent, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() }) // a pipe in memory
	var stdout, stderr bytes.Buffer
	if status := run(cancelled(t), []string{"resolve", "-"}, nil, silent, &stdout, &stderr); status != exitFailed {
		t.Errorf("status %d, want %d", status, exitFailed)
	}
	if got, want := stderr.String(), "evenkeel resolve: ended early: interrupted\n"; got != want {
		t.Errorf("standard error\n got %q\nwant %q", got, want)
	}
}

// A connection string that went astray holds a password.
func TestAConnectionStringInTheWrongFlagIsNotShown(t *testing.T) {
	t.Parallel()
	const astray = "chronicle://app:s3cr3tpw@node1"
	for _, args := range [][]string{
		{"connect", "--ca", astray, "chronicle://127.0.0.1:1"},
		{"probe", "--ca", astray, "chronicle://127.0.0.1:1"},
		{"probe", "--file", astray},
		{"serve", "--cert", astray, "--key", "key.pem"},
		{"serve", "--cert", "cert.pem", "--key", astray},
		{"serve", "--listen", "s3cr3tpw@node1:35000"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), args, nil, strings.NewReader(""), &stdout, &stderr); status == 0 {
			t.Errorf("%q: status 0", args)
		}
		if text := stdout.String() + stderr.String(); strings.Contains(text, "s3cr3tpw") {
			t.Errorf("%q: %s", args, text)
		}
	}
}

func TestInterruptedBeforeThereIsAResult(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"resolve", "chronicle+srv://a.test/?srvNameServer=127.0.0.1:1"},
		{"resolve", "dns://127.0.0.1:1/a.test"},
		{"probe", "chronicle://127.0.0.1:1"},
		{"probe", "--watch", "chronicle://127.0.0.1:1"},
		{"probe", "--watch", "--json", "chronicle+srv://a.test/?srvNameServer=127.0.0.1:1"},
		{"demo"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(cancelled(t), args, nil, strings.NewReader(""), &stdout, &stderr); status != exitFailed {
			t.Errorf("%s: status %d, want %d", args[0], status, exitFailed)
		}
		if got, want := stderr.String(), "evenkeel "+args[0]+": ended early: interrupted\n"; got != want {
			t.Errorf("%s: standard error\n got %q\nwant %q", args[0], got, want)
		}
	}
}

// The line that says where the server listens may be followed by an interrupt before the server serves.
func TestServeThatIsInterruptedAtOnceHasDoneItsWork(t *testing.T) {
	t.Parallel()
	for range 20 {
		var stdout, stderr bytes.Buffer
		if status := run(cancelled(t), []string{"serve", "--listen", "127.0.0.1:0", "--plaintext"}, nil,
			strings.NewReader(""), &stdout, &stderr); status != exitDone {
			t.Fatalf("status %d, standard error %q, want 0", status, stderr.String())
		}
	}
}

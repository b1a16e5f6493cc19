// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// The flood: so many requests a second from one address, over so many connections, in bursts.
	floodRate     = 10_000
	floodFor      = 3 * time.Second
	floodWarmUp   = time.Second
	floodConns    = 10
	floodInterval = 10 * time.Millisecond

	// What a server keeps of it: 256 reservations of one address.
	floodBound = 256
	// floodGrowth is what the server's memory may grow by between the warm-up and the end, in KiB. The requests in between
	// would be several times as much if each left only a reservation behind.
	floodGrowth = 3 << 10

	floodClients = 20
	// A neighbour reserves now and then, as clients that connect do.
	neighbourInterval = 100 * time.Millisecond
)

// Ten thousand anonymous reservations a second from one address leave the count bounded, the memory flat, and other
// clients served.
func TestFloodOfReservations(t *testing.T) {
	alone(t)
	if runtime.GOOS != "linux" {
		t.Skip("it needs a second loopback address and /proc")
	}
	ctx := within(t)
	s := serve(ctx, t, loopback(1))
	clients := connect(t, "chronicle://"+s.Listening+"/?skipTlsValidation=true", floodClients)
	clients.awaitAll(ctx, "")

	f := openFlood(ctx, t, s.Listening)
	warm := f.run(ctx, floodWarmUp, nil)
	before := residentKiB(t, s.cmd.Process.Pid)
	neighbour := newNeighbour(s.Listening)
	defer neighbour.client.CloseIdleConnections()
	total := f.run(ctx, floodFor, neighbour.live)
	after := residentKiB(t, s.cmd.Process.Pid)

	t.Logf("flood: %d requests in %v, %.0f a second: %d reserved, %d refused; memory %d KiB before, %d KiB after",
		total.requests, ms(total.took), float64(total.requests)/total.took.Seconds(), total.reserved, total.refused, before, after)
	t.Logf("neighbour: %d reservations, median %v, at most %v; count at most %d", len(neighbour.took),
		median(neighbour.took).Round(time.Microsecond), slices.Max(neighbour.took).Round(time.Microsecond), neighbour.highest)
	if got := warm.reserved + total.reserved; got != floodBound {
		t.Errorf("%d reservations of the flood were taken, want the %d that one address may have", got, floodBound)
	}
	if want := floodClients + floodBound + len(neighbour.took); neighbour.highest > want {
		t.Errorf("the count went up to %d, want at most %d", neighbour.highest, want)
	}
	if growth := after - before; growth > floodGrowth {
		t.Errorf("memory grew by %d KiB during the flood, want at most %d KiB", growth, floodGrowth)
	}
	if got := clients.finish(ctx); got.Lost != 0 || got.FailedAttempts != 0 {
		t.Errorf("the sessions did not stay up: %+v", got)
	}
}

// floodTally is what a flood came to.
type floodTally struct {
	requests, reserved, refused int
	took                        time.Duration
}

// flood is connections that send far more requests than they wait for answers.
type flood struct {
	t     *testing.T
	conns []*tls.Conn
	burst []byte // of one connection, in one interval
	size  int    // its number of requests
}

func openFlood(ctx context.Context, t *testing.T, addr string) *flood {
	t.Helper()
	f := &flood{t: t, size: int(floodRate * floodInterval.Seconds() / floodConns)}
	request := "POST /connections/reserve HTTP/1.1\r\nHost: " + addr + "\r\nContent-Length: 0\r\n\r\n"
	f.burst = []byte(strings.Repeat(request, f.size))
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a server of this test
	for range floodConns {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			t.Fatalf("open the flood: %v", err)
		}
		t.Cleanup(func() {
			// The server may have closed it by then.
			_ = conn.Close()
		})
		f.conns = append(f.conns, conn.(*tls.Conn))
	}
	return f
}

// run floods for a while, and lets others live beside it until it ends.
func (f *flood) run(ctx context.Context, length time.Duration, beside func(context.Context) error) floodTally {
	f.t.Helper()
	bursts := int(length / floodInterval)
	tallies := make([]floodTally, len(f.conns))
	began := time.Now()
	group, grouped := errgroup.WithContext(ctx)
	living, enough := context.WithCancel(grouped)
	defer enough()
	var others errgroup.Group
	if beside != nil {
		others.Go(func() error { return beside(living) })
	}
	for i, conn := range f.conns {
		group.Go(func() error { return f.send(grouped, conn, bursts) })
		group.Go(func() (err error) {
			tallies[i], err = receive(conn, bursts*f.size)
			return err
		})
	}
	err := group.Wait()
	enough()
	if err := errors.Join(err, others.Wait()); err != nil {
		f.t.Fatalf("flood: %v", err)
	}
	total := floodTally{took: time.Since(began)}
	for _, one := range tallies {
		total.requests += one.requests
		total.reserved += one.reserved
		total.refused += one.refused
	}
	return total
}

// send writes bursts at their pace, and without one where the server does not keep up.
func (f *flood) send(ctx context.Context, conn *tls.Conn, bursts int) error {
	ticker := time.NewTicker(floodInterval)
	defer ticker.Stop()
	began := time.Now()
	for sent := 0; sent < bursts; {
		for due := min(int(time.Since(began)/floodInterval)+1, bursts); sent < due; sent++ {
			if _, err := conn.Write(f.burst); err != nil {
				return err
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// receive reads the answers.
func receive(conn *tls.Conn, requests int) (floodTally, error) {
	tally := floodTally{}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return tally, err
	}
	reader := bufio.NewReader(conn)
	for range requests {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return tally, err
		}
		_, err = io.Copy(io.Discard, response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return tally, err
		}
		tally.requests++
		switch response.StatusCode {
		case http.StatusOK:
			tally.reserved++
		case http.StatusTooManyRequests:
			tally.refused++
		default:
			return tally, fmt.Errorf("answer is %s, want 200 or 429", response.Status)
		}
	}
	return tally, nil
}

// neighbour is a client with another address.
type neighbour struct {
	addr    string
	client  *http.Client
	took    []time.Duration // of its reservations
	highest int             // count that it saw
}

func newNeighbour(addr string) *neighbour {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(loopback(2))}}
	return &neighbour{addr: addr, client: &http.Client{Transport: &http.Transport{
		DialContext:     dialer.DialContext,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a server of this test
	}}}
}

// live reserves and counts until ctx is done. Every request has to be served, but the one that the end of ctx cuts off.
func (n *neighbour) live(ctx context.Context) error {
	ticker := time.NewTicker(neighbourInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := n.visit(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// visit reserves once and counts once.
func (n *neighbour) visit(ctx context.Context) error {
	began := time.Now()
	if _, err := n.ask(ctx, http.MethodPost, "/connections/reserve"); err != nil {
		return err
	}
	n.took = append(n.took, time.Since(began))
	body, err := n.ask(ctx, http.MethodGet, "/connections/count")
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(body)
	if err != nil {
		return fmt.Errorf("count is %q", body)
	}
	n.highest = max(n.highest, count)
	return nil
}

// ask makes a request that has to be answered with 200.
func (n *neighbour) ask(ctx context.Context, method, path string) (body string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "https://"+n.addr+path, nil)
	if err != nil {
		return "", err
	}
	status, body, err := answerTo(n.client, request)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s %s from another address is status %d, want 200", method, path, status)
	}
	return body, err
}

// residentKiB is the memory of a process that is in use, as the kernel counts it.
func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatalf("VmRSS is %q: %v", rest, err)
			}
			return kib
		}
	}
	t.Fatalf("no VmRSS in the status of process %d", pid)
	return 0
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && unix

package test_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	keel "github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
)

const (
	callers = 20
	// callPause is how long a caller waits between two calls.
	callPause = 20 * time.Millisecond
	// moveWait is how long a unary call may take that runs while its client moves. It is 100 ms by right; a busy machine
	// adds to it.
	moveWait = 250 * time.Millisecond

	drainPeriod = 2 * time.Second
	drainLimit  = 6 * time.Second
	// drainEnd is what a server has for its own end after the limit, and a busy machine.
	drainEnd = 1500 * time.Millisecond
	// afterDrain is how long calls go on after the server has gone.
	afterDrain = time.Second
)

// A server that is terminated loses no call: its clients move while it serves, and what they cannot take along is told.
func TestHoldATerminatedServerLosesNoCall(t *testing.T) {
	alone(t)
	ctx := within(t)
	f := startHeldFleet(ctx, t, 3, "--drain-period", drainPeriod.String(), "--drain-limit", drainLimit.String())
	clients := connect(t, f.target(), holdClients, "--ca", f.ca.file)
	clients.awaitAll(ctx, "")
	load := startLoad(ctx, t, f)
	clients.awaitAge(ctx, settledAge)
	before := clients.awaitAll(ctx, "")
	victim := load.busiest()
	terminated := time.Now()
	f.servers[victim].signal(syscall.SIGTERM)
	exit := f.servers[victim].wait(ctx)
	took := time.Since(terminated)
	after := clients.awaitNoneOn(ctx, victim)
	goOn := time.NewTimer(afterDrain)
	defer goOn.Stop()
	<-goOn.C
	load.end()

	t.Logf("the server ended with status %d after %v; %d clients of connect moved off it", exit, ms(took), spread(before)[victim])
	if exit != 0 || took > drainLimit+drainEnd {
		t.Errorf("the server ended with status %d after %v, want 0 within %v", exit, took, drainLimit+drainEnd)
	}
	moved(t, victim, terminated, before, after)
	for _, e := range clients.events() {
		if e.Event == "lost" || e.Event == "backing off" || e.Event == "candidate failed" {
			t.Errorf("client %d: %s %s: %s", e.Client, e.Event, e.Endpoint, e.Error)
		}
	}
	load.check(victim, terminated)
	clients.finish(ctx)
}

// load is a program with many connections that calls all the time.
type load struct {
	t       *testing.T
	callers []*caller
	stop    context.CancelFunc
	group   sync.WaitGroup
}

// caller is one connection with a loop of unary calls and two long streams.
type caller struct {
	conn    *keel.Conn
	first   string // the server at the start
	streams []*longStream

	mu       sync.Mutex // guards what follows
	events   []keel.Event
	calls    []call
	failures []error
	unready  []keel.State
}

// call is when a unary call began and how long it took.
type call struct {
	began time.Time
	took  time.Duration
}

// longStream is a stream that runs until the server ends it.
type longStream struct {
	name  string
	err   error // after done
	ended time.Time
	done  chan struct{}
}

// startLoad connects the callers one after the other, and has them call.
func startLoad(ctx context.Context, t *testing.T, f *heldFleet) *load {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(f.ca.ca.PEM()) {
		t.Fatal("the authority has no certificate")
	}
	running, stop := context.WithCancel(ctx)
	l := &load{t: t, stop: stop}
	t.Cleanup(l.end)
	for range callers {
		c := &caller{}
		conn, err := keel.Dial(ctx, f.target(), keel.WithTLS(&tls.Config{RootCAs: roots}), keel.WithEvents(c.event))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
		c.conn, c.first = conn, conn.Server().Addr()
		l.callers = append(l.callers, c)
		c.open(running, t, &l.group)
		l.group.Go(func() { c.call(running) })
	}
	return l
}

func (c *caller) event(e keel.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
}

// open begins the long streams: one that the server ends when its clients have left, and one that it never ends by itself.
func (c *caller) open(ctx context.Context, t *testing.T, group *sync.WaitGroup) {
	t.Helper()
	observed, err := clientspb.NewConnectionServiceClient(c.conn).ObserveConnectedClients(ctx, &emptypb.Empty{})
	if err != nil {
		t.Fatalf("observe: %v", err)
	}
	watched, err := grpc_health_v1.NewHealthClient(c.conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	c.streams = []*longStream{
		follow(observed, "observation", new(clientspb.IEnumerable_ConnectedClient), group),
		follow(watched, "watch", new(grpc_health_v1.HealthCheckResponse), group),
	}
}

// follow reads a stream to its end.
func follow(s grpc.ClientStream, name string, into any, group *sync.WaitGroup) *longStream {
	l := &longStream{name: name, done: make(chan struct{})}
	group.Go(func() {
		defer close(l.done)
		for l.err == nil {
			l.err = s.RecvMsg(into)
		}
		l.ended = time.Now()
	})
	return l
}

// call calls until ctx is done.
func (c *caller) call(ctx context.Context) {
	ticker := time.NewTicker(callPause)
	defer ticker.Stop()
	client := hostpb.NewServerClient(c.conn)
	for {
		began := time.Now()
		_, err := client.GetVersionInfo(ctx, &emptypb.Empty{})
		if ctx.Err() != nil {
			return
		}
		c.note(call{began: began, took: time.Since(began)}, err, c.conn.State())
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// note keeps what a call was like.
func (c *caller) note(made call, err error, state keel.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, made)
	if err != nil {
		c.failures = append(c.failures, err)
	}
	if state != keel.StateReady {
		c.unready = append(c.unready, state)
	}
}

// busiest is the server with the most callers.
func (l *load) busiest() string {
	counts, most := make(map[string]int), ""
	for _, c := range l.callers {
		counts[c.first]++
		if counts[c.first] > counts[most] {
			most = c.first
		}
	}
	return most
}

// end ends the calls and the streams that are left.
func (l *load) end() {
	l.stop()
	l.group.Wait()
}

// check judges every caller after the end.
func (l *load) check(victim string, terminated time.Time) {
	l.t.Helper()
	calls, moves := 0, 0
	// The slowest call of a client that moved just then, of one that stayed, and of all before.
	var moving, meanwhile, before time.Duration
	last := make(map[string]time.Duration) // when the last stream of a kind was ended
	for number, c := range l.callers {
		c.check(l.t, number, victim)
		calls, before = calls+len(c.calls), max(before, c.slowest(time.Time{}, terminated))
		if c.first != victim {
			meanwhile = max(meanwhile, c.slowest(terminated, terminated.Add(drainPeriod)))
			continue
		}
		moves++
		moving = max(moving, c.slowest(c.move()))
		for _, s := range c.streams {
			s.check(l.t, number)
			last[s.name] = max(last[s.name], s.ended.Sub(terminated))
		}
	}
	l.t.Logf("%d unary calls on %d connections, of which %d moved; the slowest took %v while its client moved, %v where none did, %v before",
		calls, len(l.callers), moves, ms(moving), ms(meanwhile), ms(before))
	l.t.Logf("the last observation ended %v after the server was terminated, the last watch %v", ms(last["observation"]), ms(last["watch"]))
	if moving > moveWait {
		l.t.Errorf("a unary call took %v while its client moved, want %v at most", moving, moveWait)
	}
	if got := last["observation"]; got >= drainLimit {
		l.t.Errorf("the last observation ended after %v, want it to end before the limit of %v", got, drainLimit)
	}
	if got := last["watch"]; got > drainLimit+drainEnd {
		l.t.Errorf("the last watch ended after %v, want %v at most", got, drainLimit+drainEnd)
	}
}

// move is when the client was told to leave, and when it was ready elsewhere.
func (c *caller) move() (from, to time.Time) {
	for _, e := range c.events {
		switch {
		case e.Kind == keel.EventLeaving:
			from = e.Time
		case e.Kind == keel.EventConnected && e.Generation == 2:
			to = e.Time
		}
	}
	return from, to
}

// slowest is how long the slowest call took of those that ran, for a part of their time, within a span.
func (c *caller) slowest(from, to time.Time) time.Duration {
	var slowest time.Duration
	for _, made := range c.calls {
		if made.began.Before(to) && made.began.Add(made.took).After(from) {
			slowest = max(slowest, made.took)
		}
	}
	return slowest
}

// check: no call has failed and the session was there all the time. Who was not on the victim has the session it had.
func (c *caller) check(t *testing.T, number int, victim string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failures) > 0 {
		t.Errorf("caller %d: %d of %d calls failed, the first with %v", number, len(c.failures), len(c.calls), c.failures[0])
	}
	if len(c.unready) > 0 {
		t.Errorf("caller %d: was %v first, and not ready at %d times", number, c.unready[0], len(c.unready))
	}
	for _, e := range c.events {
		if e.Kind == keel.EventLost || e.Kind == keel.EventBackingOff || e.Kind == keel.EventCandidateFailed {
			t.Errorf("caller %d: %v", number, e)
		}
	}
	want := uint64(1)
	if c.first == victim {
		want = 2
	}
	if from, to := c.move(); c.first == victim && (from.IsZero() || to.IsZero()) {
		t.Errorf("caller %d: its events tell of no move: %v", number, c.events)
	}
	now := c.conn.Status()
	if now.State != keel.StateReady || now.Generation != want || now.Endpoint.Addr() == victim {
		t.Errorf("caller %d, which was on %s: %v, want session %d", number, c.first, now, want)
	}
}

// check: the server has ended the stream, and said why. Its word for the last client's stream may overtake the one for the
// session; the cause is then in the status only.
func (s *longStream) check(t *testing.T, number int) {
	t.Helper()
	told := errors.Is(s.err, keel.ErrDraining)
	if !told && strings.Contains(status.Convert(s.err).Message(), "connection draining") {
		t.Logf("caller %d: the %s was told before the session was: %v", number, s.name, s.err)
		told = true
	}
	if status.Code(s.err) != codes.Unavailable || !told {
		t.Errorf("caller %d: the %s ended with %v, want Unavailable because the server is draining", number, s.name, s.err)
	}
}

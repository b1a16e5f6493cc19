// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// limit bounds the waits of tests on real sockets. It is long, as it strikes only when a test fails.
const limit = 30 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// dial makes a Conn that is closed with the test.
func dial(t *testing.T, s string, opts ...evenkeel.Option) *evenkeel.Conn {
	t.Helper()
	conn, err := evenkeel.Dial(within(t), s, opts...)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return conn
}

// shared makes a prober for all clients of a test.
func shared(t *testing.T, tlsConfig *tls.Config) evenkeel.Option {
	t.Helper()
	prober, err := balance.NewProber(balance.ProberConfig{TLS: tlsConfig})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := prober.Close(); err != nil {
			t.Errorf("close the prober: %v", err)
		}
	})
	return evenkeel.WithLeastConnections(balance.LeastConnectionsConfig{Prober: prober})
}

func TestClientsSpreadOverTheServersOfAnSRVName(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 3})
	prober := shared(t, cluster.TLS())
	for range 12 { // one after the other, so that each sees the counts of those before it
		dial(t, cluster.SRVConnectionString(), evenkeel.WithTLS(cluster.TLS()), prober)
	}
	for _, s := range cluster.Servers {
		if got := s.Count(); got != 4 {
			t.Errorf("%s has %d clients, want 4", s.Addr(), got)
		}
	}
}

func TestClientsOfAKilledServerMoveAndComeBackToIt(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 3})
	prober := shared(t, cluster.TLS())
	var recorders []*recorder
	var conns []*evenkeel.Conn
	for range 6 {
		r := newRecorder()
		recorders = append(recorders, r)
		conns = append(conns,
			dial(t, cluster.SRVConnectionString(), evenkeel.WithTLS(cluster.TLS()), prober, evenkeel.WithEvents(r.record)))
	}
	dead := cluster.Servers[0]
	var movers []int
	for i, conn := range conns {
		if conn.Server().Port == dead.Endpoint().Port {
			movers = append(movers, i)
		}
	}
	if len(movers) != 2 {
		t.Errorf("%d clients are on the server that is to die, want 2", len(movers))
	}
	if err := dead.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, i := range movers {
		r := recorders[i]
		lost, again := r.await(t, evenkeel.EventLost, 1), r.await(t, evenkeel.EventConnected, 2)
		if !errors.Is(lost.Err, evenkeel.ErrTransportLost) {
			t.Errorf("client %d lost its session with %v, want %v", i, lost.Err, evenkeel.ErrTransportLost)
		}
		if d := again.Time.Sub(lost.Time); d > time.Second {
			t.Errorf("client %d was ready again after %v, want at most 1s", i, d)
		}
		if again.Endpoint.Addr() == lost.Endpoint.Addr() {
			t.Errorf("client %d went back to the dead server", i)
		}
	}
	if err := dead.Restart(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		dial(t, cluster.SRVConnectionString(), evenkeel.WithTLS(cluster.TLS()), prober)
	}
	if got := dead.Count(); got != 3 {
		t.Errorf("the server that came back has %d clients, want the 3 new ones", got)
	}
}

// Two names for one machine with different certificates would be a muddle if the address decided; the name does.
func TestTheCertificateIsCheckedAgainstTheName(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	began := time.Now()
	_, err := evenkeel.Dial(within(t), cluster.SRVConnectionString()) // without the cluster's roots
	attempt, ok := errors.AsType[*evenkeel.AttemptError](err)
	if !ok || !attempt.Permanent() {
		t.Fatalf("Dial returned %v, want a permanent *AttemptError", err)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("Dial took %v although nothing was to be hoped for", d)
	}
	failure := attempt.Failures[0]
	if failure.Step != evenkeel.StepDial || failure.Endpoint.Host != "node1.cluster.test" {
		t.Errorf("failure is %+v, want the dial of node1.cluster.test", failure)
	}
	for _, part := range []string{"certificate signed by unknown authority", "WithTLS", "skipTlsValidation=true"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error is %q, want %q in it", err, part)
		}
	}
	dial(t, cluster.SRVConnectionString()+"&skipTlsValidation=true")
}

func TestEachStrategyConnects(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	for _, name := range []string{connstring.LeastConnections, connstring.RoundRobin, connstring.Random} {
		conn := dial(t, cluster.ConnectionString()+"?loadBalancer="+name, evenkeel.WithTLS(cluster.TLS()))
		if probed := conn.Status().Observations != nil; probed != (name == connstring.LeastConnections) {
			t.Errorf("%s: probed is %v", name, probed)
		}
		if got := conn.Server().Addrs; len(got) != 1 || got[0].Addr().String() != "127.0.0.1" {
			t.Errorf("%s: addresses are %v, want the one in use", name, got)
		}
	}
}

type lastOfList struct{}

func (lastOfList) Select(_ context.Context, candidates []discover.Endpoint) (balance.Selection, error) {
	return balance.Selection{Endpoint: candidates[len(candidates)-1]}, nil
}

func TestAStrategyOfTheUser(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 3})
	conn := dial(t, cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithStrategy(lastOfList{}))
	if got, want := conn.Server().Addr(), cluster.Servers[2].Addr(); got != want {
		t.Errorf("server is %s, want %s", got, want)
	}
}

type panicking struct{}

func (panicking) Select(context.Context, []discover.Endpoint) (balance.Selection, error) {
	panic("boom")
}

func (panicking) Resolve(context.Context) ([]discover.Endpoint, error) { panic("boom") }

// A panic on a goroutine of the library could not be recovered by the program whose code it is.
func TestAPanicInTheUsersCodeFailsTheAttempt(t *testing.T) {
	t.Parallel()
	for want, option := range map[string]evenkeel.Option{
		"strategy panicked: boom": evenkeel.WithStrategy(panicking{}),
		"resolver panicked: boom": evenkeel.WithResolver(panicking{}),
	} {
		r := newRecorder()
		conn, err := evenkeel.New("chronicle://127.0.0.1", option, evenkeel.WithEvents(r.record))
		if err != nil {
			t.Fatal(err)
		}
		if e := r.await(t, evenkeel.EventBackingOff, 1); !strings.Contains(e.Err.Error(), want) {
			t.Errorf("cause is %v, want %q in it", e.Err, want)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNilOptionsMeanTheDefaults(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	dial(t, cluster.ConnectionString()+"?skipTlsValidation=true", nil, evenkeel.WithTLS(nil), evenkeel.WithEvents(nil),
		evenkeel.WithLogger(nil), evenkeel.WithStrategy(nil), evenkeel.WithResolver(nil), evenkeel.WithOnReady(nil),
		evenkeel.WithDialOptions(nil))
}

type nowhere struct{}

func (nowhere) Select(context.Context, []discover.Endpoint) (balance.Selection, error) {
	return balance.Selection{Endpoint: discover.Endpoint{Host: "elsewhere.test", Port: 1}}, nil
}

func TestAStrategyThatPicksAStrangerFailsTheAttempt(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	conn, err := evenkeel.New("chronicle://127.0.0.1", evenkeel.WithStrategy(nowhere{}), evenkeel.WithEvents(r.record))
	if err != nil {
		t.Fatal(err)
	}
	e := r.await(t, evenkeel.EventBackingOff, 1)
	if want := "not among the candidates"; !strings.Contains(e.Err.Error(), want) {
		t.Errorf("cause is %v, want %q in it", e.Err, want)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestTheLastGoodServersAreUsedWhenALookupFails(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	r := newRecorder()
	conn := dial(t, cluster.SRVConnectionString()+"&loadBalancer=round-robin",
		evenkeel.WithTLS(cluster.TLS()), evenkeel.WithEvents(r.record))
	cluster.DNS.Remove("_chronicle._tcp." + cluster.Domain())
	first := conn.Server().Addrs[0].String() // there is none once it is killed
	for _, s := range cluster.Servers {
		if s.Addr() == first {
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.await(t, evenkeel.EventConnected, 2)
	resolved := r.await(t, evenkeel.EventResolved, 2)
	stale, ok := errors.AsType[*discover.StaleError](resolved.Err)
	if !ok || len(resolved.Endpoints) != 2 {
		t.Fatalf("second lookup brought %v, %v, want the last good set and a *StaleError", resolved.Endpoints, resolved.Err)
	}
	if !errors.Is(stale, discover.ErrNoSuchName) && !errors.Is(stale, discover.ErrNoRecords) {
		t.Errorf("cause is %v, want no such name or no records", stale.Cause)
	}
}

func TestOptionsThatContradictEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	prober, err := balance.NewProber(balance.ProberConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer prober.Close() //nolint:errcheck // nothing was opened
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "marker"})
	tests := []struct {
		name, connection string
		opts             []evenkeel.Option
		want             string
	}{
		{
			"a strategy and loadBalancer", "chronicle://a?loadBalancer=random",
			[]evenkeel.Option{evenkeel.WithStrategy(lastOfList{})},
			"evenkeel: WithStrategy contradicts loadBalancer in the connection string: use one of them",
		},
		{
			"a strategy and a prober", "chronicle://a",
			[]evenkeel.Option{
				evenkeel.WithStrategy(lastOfList{}),
				evenkeel.WithLeastConnections(balance.LeastConnectionsConfig{Prober: prober}),
			},
			"evenkeel: WithStrategy contradicts the Prober of WithLeastConnections: give it to the strategy",
		},
		{
			"plaintext and TLS", "chronicle://a",
			[]evenkeel.Option{evenkeel.WithPlaintext(), evenkeel.WithTLS(&tls.Config{})},
			"evenkeel: WithPlaintext contradicts WithTLS: use one of them",
		},
		{
			"a TLS that is too old", "chronicle://a", []evenkeel.Option{evenkeel.WithTLS(&tls.Config{MaxVersion: tls.VersionTLS11})}, //nolint:gosec // that is refused
			"evenkeel: WithTLS: MaxVersion is TLS 1.1, and TLS 1.2 is the oldest version allowed",
		},
		{
			"a server name in the TLS configuration", "chronicle://a",
			[]evenkeel.Option{evenkeel.WithTLS(&tls.Config{ServerName: "x"})},
			"evenkeel: WithTLS: ServerName and NextProtos are set for each server and must be empty",
		},
		{
			"two sources of tokens", "chronicle://user:marker@a",
			[]evenkeel.Option{evenkeel.WithTokenSource(source)},
			"evenkeel: WithTokenSource contradicts the credentials in the connection string (client-credentials): use one of them",
		},
		{
			"a source of tokens, and none wanted", "chronicle://a?auth=none",
			[]evenkeel.Option{evenkeel.WithTokenSource(source)},
			"evenkeel: WithTokenSource contradicts auth=none in the connection string: use one of them",
		},
		{
			"a token cache and a source of tokens", "chronicle://a",
			[]evenkeel.Option{evenkeel.WithTokenSource(source), evenkeel.WithTokenCache("tokens")},
			"evenkeel: WithTokenCache contradicts WithTokenSource, which is to keep its own tokens: use one of them",
		},
		{
			"a token cache and no tokens", "chronicle://a?apiKey=marker",
			[]evenkeel.Option{evenkeel.WithTokenCache("tokens")},
			"evenkeel: WithTokenCache keeps the tokens of a user and a password, and the connection string has none: " +
				"leave it out, or write user:password@ before the hosts",
		},
		{
			"a client certificate that is not there", "chronicle://a?certificatePath=testdata/none.pem", nil,
			"evenkeel: certificatePath: the file testdata/none.pem cannot be read: no such file or directory",
		},
		{
			"two client certificates", "chronicle://a?certificatePath=client.pem",
			[]evenkeel.Option{evenkeel.WithTLS(&tls.Config{Certificates: make([]tls.Certificate, 1)})},
			"evenkeel: WithTLS has a client certificate, and so has the connection string (certificatePath): use one of them",
		},
		{
			"a client certificate without TLS", "chronicle://a?certificatePath=client.pem",
			[]evenkeel.Option{evenkeel.WithPlaintext()},
			"evenkeel: WithPlaintext contradicts certificatePath in the connection string: use one of them",
		},
		{
			"targets in a domain, and a resolver", "chronicle+srv://a",
			[]evenkeel.Option{evenkeel.WithSRVTargetsInDomain(), evenkeel.WithResolver(panicking{})},
			"evenkeel: WithSRVTargetsInDomain contradicts WithResolver: use one of them",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := evenkeel.New(tt.connection, tt.opts...); err == nil || err.Error() != tt.want {
				t.Errorf("New returned %v, want %s", err, tt.want)
			}
		})
	}
}

func TestAStringThatDoesNotParseIsAParseError(t *testing.T) {
	t.Parallel()
	_, err := evenkeel.Dial(within(t), "chronicle://app:marker/x@node1")
	if _, ok := errors.AsType[*connstring.ParseError](err); !ok || strings.Contains(err.Error(), "marker") {
		t.Errorf("Dial returned %v, want a *ParseError that shows nothing", err)
	}
}

// Calls go on while the session moves from server to server, from many goroutines at once.
func TestCallsFollowTheSession(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	r := newRecorder()
	conn := dial(t, cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()), evenkeel.WithEvents(r.record))
	ctx, stop := context.WithCancel(within(t))
	var callers sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for range 8 {
		callers.Go(func() {
			for ctx.Err() == nil {
				text, err := version(ctx, conn)
				if err != nil {
					text = "error: " + status.Code(err).String()
				}
				mu.Lock()
				seen[text]++
				mu.Unlock()
			}
		})
	}
	for _, s := range cluster.Servers {
		if s.Addr() == conn.Server().Addr() {
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.await(t, evenkeel.EventConnected, 2)
	if _, err := version(ctx, conn); err != nil {
		t.Errorf("a call after the move failed: %v", err)
	}
	stop()
	callers.Wait()
	for text := range seen {
		// What was cut off is Unavailable; what was cancelled at the end was cancelled by the callers.
		if strings.HasPrefix(text, "error: ") && text != "error: Unavailable" && text != "error: Canceled" {
			t.Errorf("calls ended with %s", text)
		}
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// stuckConn takes nothing in once it is stuck, as a connection to a stopped machine whose buffers are full.
type stuckConn struct {
	net.Conn
	stuck  *atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (c *stuckConn) Write(p []byte) (int, error) {
	if c.stuck.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *stuckConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// grpc-go waits for up to 5 s to take leave of a server that takes nothing in, for each connection.
func TestAServerThatTakesNothingInHoldsNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		var stuck atomic.Bool
		var first atomic.Pointer[string]
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin", evenkeel.WithDialerForTest(
			func(ctx context.Context, e discover.Endpoint) (net.Conn, error) {
				raw, err := c.dial(ctx, e)
				addr := e.Addr()
				if err != nil || !first.CompareAndSwap(nil, &addr) && *first.Load() != addr {
					return raw, err
				}
				return &stuckConn{Conn: raw, stuck: &stuck, closed: make(chan struct{})}, nil
			}))
		events.await(t, evenkeel.EventConnected, 1)
		for range 130 { // three connections
			openStream(t.Context(), t, conn)
		}
		time.Sleep(10 * time.Second)
		stuck.Store(true)
		silent := func(int, string) (string, error) { return "", nil }
		c.servers[*first.Load()].pulse.Store(&silent)
		lost, again := events.await(t, evenkeel.EventLost, 1), events.await(t, evenkeel.EventConnected, 2)
		if d := again.Time.Sub(lost.Time); d > 250*time.Millisecond {
			t.Errorf("connected again after %v, want at most the jitter of 250ms", d)
		}
		began := time.Now()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("Close took %v, want at most 100ms", d)
		}
	})
}

// blocking is code of a program that never looks at its context.
type blocking struct{ release chan struct{} }

func (b blocking) Select(context.Context, []discover.Endpoint) (balance.Selection, error) {
	<-b.release
	return balance.Selection{}, errors.New("too late")
}

func (b blocking) Resolve(context.Context) ([]discover.Endpoint, error) {
	<-b.release
	return nil, errors.New("too late")
}

func TestCloseDoesNotWaitForCodeThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	for name, options := range map[string][]evenkeel.Option{
		"strategy": {evenkeel.WithStrategy(blocking{release})},
		"resolver": {evenkeel.WithResolver(blocking{release})},
		"callback": {evenkeel.WithEvents(func(evenkeel.Event) { <-release })},
		"on ready": {evenkeel.WithOnReady(func(context.Context, grpc.ClientConnInterface) error { <-release; return nil })},
		"interceptor": {evenkeel.WithDialOptions(grpc.WithUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
			opts ...grpc.CallOption,
		) error {
			<-release
			return invoke(ctx, method, req, reply, cc, opts...)
		}))},
	} {
		conn, err := evenkeel.New(cluster.ConnectionString(), append(options, evenkeel.WithTLS(cluster.TLS()))...)
		if err != nil {
			t.Fatal(err)
		}
		patience := 200 * time.Millisecond // for what does not come
		if name == "callback" {            // which holds up nothing
			patience = limit
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		ready := conn.WaitReady(ctx)
		cancel()
		if blocked := ready != nil; blocked == (name == "callback") {
			t.Errorf("%s: WaitReady returned %v", name, ready)
		}
		began := time.Now()
		if err := conn.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
		// The promise is 100 ms; the rest is for a machine with other things to do.
		if d := time.Since(began); d > time.Second {
			t.Errorf("%s: Close took %v", name, d)
		}
	}
}

// closing closes the Conn that asks it.
type closing struct {
	conn  atomic.Pointer[evenkeel.Conn]
	known chan struct{}
}

func (c *closing) Select(context.Context, []discover.Endpoint) (balance.Selection, error) {
	<-c.known
	return balance.Selection{}, c.conn.Load().Close()
}

func TestAStrategyMayCloseItsConn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		s := &closing{known: make(chan struct{})}
		conn, events := c.connect(t, "chronicle://a,b", evenkeel.WithStrategy(s))
		s.conn.Store(conn)
		close(s.known)
		events.await(t, evenkeel.EventClosed, 1)
	})
}

func TestAStrategyThatIgnoresItsContextIsNotAskedTwiceAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		release := make(chan struct{})
		_, events := c.connect(t, "chronicle://a,b", evenkeel.WithStrategy(blocking{release}))
		first := events.await(t, evenkeel.EventBackingOff, 1)
		if want := "strategy has not returned: attempt took longer than 30 s"; !strings.Contains(first.Err.Error(), want) {
			t.Errorf("first attempt failed with %v, want %q", first.Err, want)
		}
		second := events.await(t, evenkeel.EventBackingOff, 2)
		if want := "strategy has not returned from an earlier call"; !strings.Contains(second.Err.Error(), want) {
			t.Errorf("second attempt failed with %v, want %q", second.Err, want)
		}
		close(release)
	})
}

// What a server says goes to logs and terminals.
func TestTextOfAServerIsBoundedAndHarmless(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		evil := "\x1b]0;pwned\x07\x1b[2J\nsecond line " + strings.Repeat("x", 10_000)
		refuse := func(int, string) (string, error) { return "", status.Error(codes.PermissionDenied, evil) }
		c.servers["a:35000"].pulse.Store(&refuse)
		conn, events := c.connect(t, "chronicle://a")
		failed := events.await(t, evenkeel.EventCandidateFailed, 1)
		events.await(t, evenkeel.EventBackingOff, 1)
		for _, text := range []string{failed.String(), failed.Err.Error(), conn.Status().String(), conn.Status().Err.Error()} {
			if strings.ContainsAny(text, "\x1b\x07\n") || len(text) > 1000 || !strings.Contains(text, "pwned") {
				t.Errorf("text of %d bytes: %.100q", len(text), text)
			}
		}
	})
}

func TestTheAttemptAfterABackoffLeavesNobodyOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		conn, events := c.connect(t, "chronicle://a,b?loadBalancer=round-robin")
		events.await(t, evenkeel.EventConnected, 1)
		time.Sleep(40 * time.Second)
		first := conn.Server().Host
		for _, name := range []string{"a", "b"} {
			c.refuse.Store(name, true)
		}
		c.servers[first+":35000"].cutOff()
		events.await(t, evenkeel.EventBackingOff, 1)
		c.refuse.Delete(first)
		again := events.await(t, evenkeel.EventConnected, 2)
		if again.Endpoint.Host != first {
			t.Errorf("connected to %s, want %s", again.Endpoint.Host, first)
		}
	})
}

func TestCallsThatGetNoFurtherConnectionShareWhatThereIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a")
		conn, events := c.connect(t, "chronicle://a")
		events.await(t, evenkeel.EventConnected, 1)
		c.refuse.Store("a", true)
		for range 90 {
			openStream(t.Context(), t, conn)
		}
		if _, err := version(t.Context(), conn); status.Code(err) != codes.Unavailable || !errors.Is(err, errRefused) {
			t.Errorf("a call beyond all room failed with %v, want Unavailable and the cause", err)
		}
		synctest.Wait()
		if got := conn.State(); got != evenkeel.StateReady {
			t.Errorf("state is %v, want ready", got)
		}
	})
}

func TestAnIPv6AddressWithAZoneIsDialled(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Addr: netip.IPv6Loopback()})
	zone := loopbackInterface(t)
	_, port, err := net.SplitHostPort(cluster.Servers[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, "chronicle://[::1%25"+zone+"]:"+port, evenkeel.WithTLS(cluster.TLS()))
	if got := conn.Server().Host; got != "::1%"+zone {
		t.Errorf("server is %q, want the address with its zone", got)
	}
}

// loopbackInterface is the name of the interface with ::1.
func loopbackInterface(t *testing.T) string {
	t.Helper()
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Name
		}
	}
	t.Fatal("no loopback interface")
	return ""
}

// countingHere is a prober whose first server has as many connections as the test says.
type countingHere struct {
	counts     map[string]int
	capacities map[string]int // told of the servers that are in it
	draining   string         // the host of one that is
	reserved   atomic.Int64
}

func (p *countingHere) Count(_ context.Context, e discover.Endpoint) (balance.Count, error) {
	count := balance.Count{Connections: p.counts[e.Host]}
	if capacity := p.capacities[e.Host]; capacity > 0 || p.draining == e.Host {
		count.Load = &balance.Load{Capacity: capacity, Draining: p.draining == e.Host}
	}
	return count, nil
}

func (p *countingHere) Reserve(context.Context, discover.Endpoint, balance.ReserveRequest) (balance.Reservation, error) {
	p.reserved.Add(1)
	return balance.Reservation{Made: true}, nil
}

func TestReselectMovesOnlyWhereThatEvensTheServersOut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		own, other             int
		ownWeight, otherWeight uint16
		capacities             map[string]int
		draining               string
		moves                  bool
	}{
		"one more than there, which would be one less": {own: 5, other: 4},
		"as many there":                         {own: 5, other: 5},
		"two less there":                        {own: 5, other: 3, moves: true},
		"more there, but less for its weight":   {own: 50, other: 100, ownWeight: 1, otherWeight: 10, moves: true},
		"less there, but more for its weight":   {own: 100, other: 50, ownWeight: 10, otherWeight: 1},
		"weight 0 is a tenth of weight 1":       {own: 2, other: 10, ownWeight: 0, otherWeight: 1, moves: true},
		"more there, but less for its capacity": {own: 50, other: 100, capacities: map[string]int{"a": 1, "b": 10}, moves: true},
		"less there, but more for its capacity": {own: 100, other: 50, capacities: map[string]int{"a": 10, "b": 1}},
		"one without a capacity counts as one":  {own: 50, other: 100, capacities: map[string]int{"b": 10}, moves: true},
		"capacities go before weights": {
			own: 50, other: 100, ownWeight: 10, otherWeight: 1, capacities: map[string]int{"a": 1, "b": 10}, moves: true,
		},
		"counts beyond all reason":   {own: math.MaxInt, other: math.MaxInt, ownWeight: 1, otherWeight: 65535, moves: true},
		"the own server wants to go": {own: 5, other: 9, draining: "a", moves: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a", "b")
				p := &countingHere{counts: map[string]int{"a": 0, "b": 1 << 20}}
				conn, events := c.connect(t, "chronicle://a,b",
					evenkeel.WithLeastConnections(balance.LeastConnectionsConfig{Prober: p}),
					evenkeel.WithResolver(discover.Static(
						discover.Endpoint{Host: "a", Port: 35000, Weight: tt.ownWeight},
						discover.Endpoint{Host: "b", Port: 35000, Weight: tt.otherWeight},
					)))
				events.await(t, evenkeel.EventConnected, 1)
				if conn.Server().Host != "a" {
					t.Fatalf("on %s, want a", conn.Server())
				}
				p.counts, p.capacities, p.draining = map[string]int{"a": tt.own, "b": tt.other}, tt.capacities, tt.draining
				reserved := p.reserved.Load()
				if err := conn.Reselect(t.Context()); err != nil {
					t.Fatal(err)
				}
				if moved := conn.Server().Host == "b"; moved != tt.moves {
					t.Errorf("moved is %v, want %v", moved, tt.moves)
				}
				if got := p.reserved.Load() - reserved; got != 0 {
					t.Errorf("%d reservations were left behind, want none", got)
				}
			})
		})
	}
}

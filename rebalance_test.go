// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"errors"
	"slices"
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
)

// tilting is a prober that says what a test wants of each server. Where it names reservations, it remembers what became of
// them.
type tilting struct {
	counts  func(addr string) (int, error)
	names   bool
	hang    atomic.Bool // counts do not come before ctx is done
	probing atomic.Int64

	mu       sync.Mutex
	reserved []string
	released []string
}

func (p *tilting) Count(ctx context.Context, e discover.Endpoint) (balance.Count, error) {
	p.probing.Add(1)
	if p.hang.Load() {
		<-ctx.Done()
		return balance.Count{}, ctx.Err()
	}
	count, err := p.counts(e.Addr())
	return balance.Count{Connections: count}, err
}

func (p *tilting) Reserve(_ context.Context, e discover.Endpoint, r balance.ReserveRequest) (balance.Reservation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved = append(p.reserved, e.Addr())
	if !p.names || !r.Identify {
		return balance.Reservation{Made: true}, nil
	}
	return balance.Reservation{Made: true, ID: "place-at-" + e.Host, Count: 1}, nil
}

func (p *tilting) Release(_ context.Context, e discover.Endpoint, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = append(p.released, e.Addr()+" "+id)
	return nil
}

// heavy returns counts that have the server with an Addr that own returns far above the others.
func heavy(own func() string, others int) func(string) (int, error) {
	return func(addr string) (int, error) {
		if addr == own() {
			return 20, nil
		}
		return others, nil
	}
}

// connectRebalancing makes a Conn on two servers that rebalances by what the prober says.
func (c *memoryCluster) connectRebalancing(
	t *testing.T, p *tilting, opts ...evenkeel.Option,
) (*evenkeel.Conn, *recorder) {
	t.Helper()
	return c.connect(t, "chronicle://a,b?loadBalancer=round-robin",
		append(opts, evenkeel.WithRebalance(balance.RebalanceConfig{Prober: p}))...)
}

func TestRebalancingMovesBeforeItLetsGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		var first atomic.Value
		first.Store("")
		p := &tilting{counts: heavy(func() string { return first.Load().(string) }, 2)}
		contexts := make(chan context.Context, 2)
		conn, events := c.connectRebalancing(t, p, evenkeel.WithOnReady(func(ctx context.Context, _ grpc.ClientConnInterface) error {
			contexts <- ctx
			return nil
		}))
		events.await(t, evenkeel.EventConnected, 1)
		first.Store(conn.Server().Addr())
		stream := openStream(t.Context(), t, conn)
		calling, stop := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() { // none of which may fail or wait
			for calling.Err() == nil {
				began := time.Now()
				if _, err := version(t.Context(), conn); err != nil || time.Since(began) > 10*time.Millisecond {
					t.Errorf("a call ended with %v after %v", err, time.Since(began))
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
		left, again := events.await(t, evenkeel.EventLeaving, 1), events.await(t, evenkeel.EventConnected, 2)
		stop()
		calls.Wait()
		if !errors.Is(left.Err, evenkeel.ErrRebalanced) || left.Endpoint.Addr() != first.Load() || left.Generation != 1 {
			t.Errorf("left %s, session %d, because of %v; want the first one, to be rebalanced", left.Endpoint.Addr(), left.Generation, left.Err)
		}
		if d := left.Time.Sub(events.await(t, evenkeel.EventConnected, 1).Time); d < 30*time.Second {
			t.Errorf("moved after %v, want 30s at least", d)
		}
		if again.Endpoint.Addr() == left.Endpoint.Addr() || slices.Contains(events.kinds(), evenkeel.EventLost) {
			t.Errorf("connected to %s: %v", again.Endpoint.Addr(), events.kinds())
		}
		// Streams are told, and have 30 s.
		if cause := context.Cause(<-contexts); !errors.Is(cause, evenkeel.ErrRebalanced) {
			t.Errorf("the context of the session ended with %v", cause)
		}
		for {
			if _, err := stream.Recv(); err != nil {
				if status.Code(err) != codes.Unavailable || !errors.Is(err, evenkeel.ErrRebalanced) {
					t.Errorf("the stream was cut off with %v, want Unavailable with the cause", err)
				}
				break
			}
		}
		if d := time.Since(left.Time); d < 29*time.Second || d > 31*time.Second {
			t.Errorf("the stream was cut off after %v, want 30s", d)
		}
		time.Sleep(time.Hour)
		if got := conn.Status(); got.Generation != 2 || got.State != evenkeel.StateReady {
			t.Errorf("session %d, %v, after an hour: want the second one", got.Generation, got.State)
		}
	})
}

// Servers of which each says that it is crowded while the client is on it, and nearly empty when not.
func TestLiesMoveAClientNoMoreThanItsBudget(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		others      int
		least, most int // moves in an hour
	}{
		"a server that counts those that come": {1, 2, 4},
		"a server that counts nobody":          {0, 0, 0},
		"a difference that is worth nothing":   {19, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a", "b")
				var conn atomic.Pointer[evenkeel.Conn]
				own := func() string {
					if conn := conn.Load(); conn != nil {
						return conn.Server().Addr()
					}
					return ""
				}
				made, events := c.connectRebalancing(t, &tilting{counts: heavy(own, tt.others)})
				conn.Store(made)
				events.await(t, evenkeel.EventConnected, 1)
				time.Sleep(time.Hour)
				moves := events.all(evenkeel.EventLeaving)
				if len(moves) < tt.least || len(moves) > tt.most {
					t.Errorf("%d moves in an hour, want %d to %d", len(moves), tt.least, tt.most)
				}
				for i := range moves[:max(len(moves)-1, 0)] {
					rest := 5 * time.Minute << i
					if d := moves[i+1].Time.Sub(moves[i].Time); d < rest-10*time.Second {
						t.Errorf("move %d came %v after the one before, want %v less the time of a move", i+2, d, rest)
					}
				}
			})
		})
	}
}

func TestNoRebalancingInTrouble(t *testing.T) {
	t.Parallel()
	errNone := errors.New("no count")
	flap := atomic.Int64{}
	for name, counts := range map[string]func(own func() string) func(string) (int, error){
		"no server tells its count": func(func() string) func(string) (int, error) {
			return func(string) (int, error) { return 0, errNone }
		},
		"the own server does not tell its count": func(own func() string) func(string) (int, error) {
			return func(addr string) (int, error) {
				if addr == own() {
					return 0, errNone
				}
				return 0, nil
			}
		},
		"a server comes and goes": func(own func() string) func(string) (int, error) {
			return func(addr string) (int, error) {
				if addr == own() {
					return 20, nil
				}
				if flap.Add(1)%2 == 0 {
					return 0, errNone
				}
				return 2, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a", "b")
				var conn atomic.Pointer[evenkeel.Conn]
				own := func() string { return conn.Load().Server().Addr() }
				p := &tilting{counts: counts(own)}
				made, events := c.connectRebalancing(t, p)
				conn.Store(made)
				time.Sleep(time.Hour)
				if got := events.all(evenkeel.EventLeaving); len(got) > 0 || p.probing.Load() < 100 {
					t.Errorf("%d moves after %d counts: %v", len(got), p.probing.Load(), got)
				}
			})
		})
	}
}

// A client that has lost a session keeps the next one for a while.
func TestNoRebalancingSoonAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		var conn atomic.Pointer[evenkeel.Conn]
		p := &tilting{counts: heavy(func() string { return conn.Load().Server().Addr() }, 2)}
		made, events := c.connectRebalancing(t, p)
		conn.Store(made)
		events.await(t, evenkeel.EventConnected, 1)
		for range 20 { // each session lives for less than the calm
			time.Sleep(29 * time.Second)
			c.servers[made.Server().Addr()].cutOff()
		}
		if got := p.probing.Load(); got > 0 || len(events.all(evenkeel.EventLeaving)) > 0 {
			t.Errorf("servers were asked %d times in troubled times: %v", got, events.all(evenkeel.EventLeaving))
		}
	})
}

func TestALookHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*testing.T, *memoryCluster, *evenkeel.Conn, *recorder){
		"a request to move": func(t *testing.T, _ *memoryCluster, conn *evenkeel.Conn, _ *recorder) {
			if err := conn.Reselect(t.Context()); err != nil {
				t.Errorf("Reselect: %v", err)
			}
		},
		"the loss of the session": func(t *testing.T, c *memoryCluster, conn *evenkeel.Conn, events *recorder) {
			c.servers[conn.Server().Addr()].cutOff()
			events.await(t, evenkeel.EventConnected, 2)
		},
		"the end": func(t *testing.T, _ *memoryCluster, conn *evenkeel.Conn, events *recorder) {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			events.await(t, evenkeel.EventClosed, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a", "b")
				p := &tilting{}
				p.hang.Store(true)
				conn, events := c.connectRebalancing(t, p,
					evenkeel.WithLeastConnections(balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter}))
				events.await(t, evenkeel.EventConnected, 1)
				for p.probing.Load() == 0 {
					time.Sleep(10 * time.Millisecond)
				}
				began := time.Now()
				do(t, c, conn, events)
				if d := time.Since(began); d > 100*time.Millisecond {
					t.Errorf("it took %v beside a look", d)
				}
			})
		})
	}
}

// noted counts lookups, and can leave all out but one.
type noted struct {
	discover.Resolver
	lookups atomic.Int64
	only    atomic.Pointer[string] // the host; nil for all
}

func (n *noted) Resolve(ctx context.Context) ([]discover.Endpoint, error) {
	n.lookups.Add(1)
	endpoints, err := n.Resolver.Resolve(ctx)
	if only := n.only.Load(); only != nil {
		endpoints = slices.DeleteFunc(endpoints, func(e discover.Endpoint) bool { return e.Host != *only })
	}
	return endpoints, err
}

// What is not found looks no sooner than what is.
func TestLooksKeepTheirIntervalWhereThereIsNothingToLookAt(t *testing.T) {
	t.Parallel()
	for _, only := range []string{"the own server", "the other server", "nobody"} {
		t.Run(only, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newMemoryCluster(t, "a", "b")
				resolver := &noted{Resolver: discover.Static(discover.Endpoint{Host: "a", Port: 35000}, discover.Endpoint{Host: "b", Port: 35000})}
				conn, events := c.connectRebalancing(t, &tilting{counts: func(string) (int, error) { return 1, nil }}, evenkeel.WithResolver(resolver))
				events.await(t, evenkeel.EventConnected, 1)
				hosts := map[string]string{"the own server": "a", "the other server": "b"}
				if conn.Server().Host == "b" {
					hosts = map[string]string{"the own server": "b", "the other server": "a"}
				}
				host := hosts[only]
				resolver.only.Store(&host)
				time.Sleep(time.Hour)
				if got := resolver.lookups.Load(); got < 90 || got > 161 {
					t.Errorf("%d lookups in an hour, want one in 30s or so", got)
				}
				if got := conn.Status(); got.Generation != 1 || got.State != evenkeel.StateReady {
					t.Errorf("session %d, %v, want the first one", got.Generation, got.State)
				}
			})
		})
	}
}

// A place that was reserved with an id is given back when nobody comes.
func TestAPlaceIsGivenBackWhenTheServerCannotBeUsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		c.refuse.Store("a", true)
		var first atomic.Value
		first.Store("b:35000") // so that a is picked
		p := &tilting{counts: heavy(func() string { return first.Load().(string) }, 2), names: true}
		conn, events := c.connect(t, "chronicle://a,b", evenkeel.WithRebalance(balance.RebalanceConfig{}),
			evenkeel.WithLeastConnections(balance.LeastConnectionsConfig{Prober: p}))
		events.await(t, evenkeel.EventConnected, 1)
		synctest.Wait()
		want := "a:35000 place-at-a"
		released := func() []string {
			p.mu.Lock()
			defer p.mu.Unlock()
			return slices.Clone(p.released)
		}
		if got := released(); !slices.Equal(got, []string{want}) || conn.Server().Host != "b" {
			t.Errorf("released %v, on %s, want the place at a", got, conn.Server().Host)
		}
		// The penalty of a has run out some time; the move there then fails, and the session stays.
		events.await(t, evenkeel.EventCandidateFailed, 2)
		synctest.Wait()
		if got := released(); !slices.Equal(got, []string{want, want}) {
			t.Errorf("released %v, want the place at a again", got)
		}
		if got := conn.Status(); got.Generation != 1 || got.State != evenkeel.StateReady {
			t.Errorf("session %d, %v, want the first one", got.Generation, got.State)
		}
	})
}

// Round-robin reserves nothing and can give nothing back: who has reserved does.
func TestAPlaceToMoveToIsGivenBackWhateverTheStrategy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newMemoryCluster(t, "a", "b")
		c.refuse.Store("a", true)
		p := &tilting{counts: heavy(func() string { return "b:35000" }, 2), names: true}
		_, events := c.connectRebalancing(t, p)
		events.await(t, evenkeel.EventConnected, 1)
		var reserved, released []string
		for began := time.Now(); len(reserved) == 0 && time.Since(began) < time.Hour; {
			time.Sleep(10 * time.Second)
			p.mu.Lock()
			reserved, released = slices.Clone(p.reserved), slices.Clone(p.released)
			p.mu.Unlock()
		}
		if !slices.Equal(reserved, []string{"a:35000"}) || !slices.Equal(released, []string{"a:35000 place-at-a"}) {
			t.Errorf("reserved at %v, released %v, want the place at a given back", reserved, released)
		}
	})
}

func TestRebalancingThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	rebalance := evenkeel.WithRebalance(balance.RebalanceConfig{})
	for name, tt := range map[string]struct {
		connection string
		opts       []evenkeel.Option
		want       string
	}{
		"without a session": {
			"chronicle://a",
			[]evenkeel.Option{rebalance, evenkeel.WithoutSession()},
			"evenkeel: WithRebalance contradicts WithoutSession: servers do not count such a client",
		},
		"without counts": {
			"chronicle://a?loadBalancer=random",
			[]evenkeel.Option{rebalance},
			"evenkeel: WithRebalance needs a Prober where the strategy is not least-connections",
		},
		"too often": {
			"chronicle://a",
			[]evenkeel.Option{evenkeel.WithRebalance(balance.RebalanceConfig{Interval: time.Millisecond})},
			"evenkeel: balance: interval of 1ms, it must lie between 100ms and 24h0m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := evenkeel.New(tt.connection, tt.opts...); err == nil || err.Error() != tt.want {
				t.Errorf("New returned %v, want %s", err, tt.want)
			}
		})
	}
}

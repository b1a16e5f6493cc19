// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/channel"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/memnet"
)

// bubble is a set of servers and a source of endpoints without sockets, for tests in which time is not real.
type bubble struct {
	*testing.T

	servers   map[string]*memnet.Listener
	blackhole map[string]chan struct{} // by server; closed when nothing comes back from it any more

	mu    sync.Mutex
	set   []discover.Endpoint // guarded by mu
	err   error               // guarded by mu
	asked []time.Duration     // guarded by mu: when, since the start
	began time.Time
}

func newBubble(t *testing.T, names ...string) *bubble {
	t.Helper()
	b := &bubble{T: t, servers: make(map[string]*memnet.Listener), blackhole: make(map[string]chan struct{}), began: time.Now()}
	for _, name := range names {
		listener := memnet.Listen()
		b.servers[name] = listener
		b.blackhole[name] = make(chan struct{})
		s := newServer(name)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = s.grpc.Serve(listener)
		}()
		t.Cleanup(func() {
			s.grpc.Stop()
			<-ended
		})
	}
	return b
}

func (b *bubble) put(err error, names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err, b.set = err, nil
	for _, name := range names {
		addr := netip.MustParseAddrPort(name)
		b.set = append(b.set, discover.Endpoint{Host: addr.Addr().String(), Port: addr.Port(), Addrs: []netip.AddrPort{addr}})
	}
}

// Resolve implements discover.Resolver.
func (b *bubble) Resolve(context.Context) ([]discover.Endpoint, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, time.Since(b.began))
	return append([]discover.Endpoint(nil), b.set...), b.err
}

// lookups returns when the source was asked.
func (b *bubble) lookups() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]time.Duration(nil), b.asked...)
}

func (b *bubble) dial(config channel.Config, options ...grpc.DialOption) (*grpc.ClientConn, *channel.Channel) {
	b.Helper()
	config.Resolver = b
	c := open(b.T, config)
	dialer := func(ctx context.Context, addr string) (net.Conn, error) {
		listener := b.servers[addr]
		if listener == nil {
			return nil, errors.New("nobody is there")
		}
		conn, err := listener.DialContext(ctx)
		if err != nil {
			return nil, err
		}
		return &holeConn{Conn: conn, hole: b.blackhole[addr], closed: make(chan struct{})}, nil
	}
	all := append([]grpc.DialOption{grpc.WithContextDialer(dialer), grpc.WithIdleTimeout(0)}, options...)
	return dial(b.T, c, ownTarget, all...), c
}

// holeConn is a connection whose packets get lost from a moment on, without anybody being told.
type holeConn struct {
	net.Conn

	hole   <-chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (c *holeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.hole:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *holeConn) Write(p []byte) (int, error) {
	select {
	case <-c.hole:
		return len(p), nil
	default:
		return c.Conn.Write(p)
	}
}

func (c *holeConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

const (
	firstServer  = "10.0.0.1:1"
	secondServer = "10.0.0.2:1"
)

func TestNewEndpointIsUsedWithinAnIntervalOfTheDefaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, firstServer, secondServer)
		b.put(nil, firstServer)
		conn, c := b.dial(channel.Config{})
		defer func() { _ = errors.Join(conn.Close(), c.Close()) }()
		if got := tally(t, conn, 4); got[firstServer] != 4 {
			t.Fatalf("got %v, want all calls at the first server", got)
		}
		b.put(nil, firstServer, secondServer)
		time.Sleep(channel.DefaultInterval + time.Second)
		if got := tally(t, conn, 4); got[secondServer] != 2 {
			t.Errorf("got %v an interval after the second server came, want half of the calls there", got)
		}
		// A port that changes is another endpoint; the server at the old one is gone from the set.
		b.put(nil, secondServer)
		time.Sleep(channel.DefaultInterval + time.Second)
		if got := tally(t, conn, 4); got[secondServer] != 4 {
			t.Errorf("got %v an interval after the first server went, want all calls at the second", got)
		}
	})
}

// TestIntervalsDoubleWhileLookupsFail looks at the times of lookups while an endpoint serves: the interval doubles with
// each failure up to its maximum, and is back at once when a lookup succeeds.
func TestIntervalsDoubleWhileLookupsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, firstServer)
		b.put(nil, firstServer)
		conn, c := b.dial(channel.Config{})
		defer func() { _ = errors.Join(conn.Close(), c.Close()) }()
		tally(t, conn, 1)
		b.put(discover.ErrServerFailed)
		time.Sleep(time.Hour)
		tally(t, conn, 4)
		b.put(nil, firstServer)
		time.Sleep(10 * time.Minute)
		waits := gaps(b.lookups())
		// The first wait is drawn from the whole interval; then come 30 s doubled and doubled, up to 20 % shorter.
		within(t, "first wait", waits[0], channel.DefaultMinInterval, channel.DefaultInterval)
		for i, limit := range []time.Duration{60, 120, 240, 300, 300, 300} {
			limit *= time.Second
			within(t, "wait while lookups fail", waits[1+i], limit*8/10, limit)
		}
		within(t, "wait after a success", waits[len(waits)-1], channel.DefaultInterval*8/10, channel.DefaultInterval)
	})
}

func gaps(times []time.Duration) []time.Duration {
	var waits []time.Duration
	for i := 1; i < len(times); i++ {
		waits = append(waits, times[i]-times[i-1])
	}
	return waits
}

func within(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("got a %s of %v, want %v to %v", what, got, least, most)
	}
}

// TestLookupIsRepeatedWithinASecondWhileNothingIsUsable lets the only server vanish.
func TestLookupIsRepeatedWithinASecondWhileNothingIsUsable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, firstServer, secondServer)
		b.put(nil, firstServer)
		conn, c := b.dial(channel.Config{}, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 2 * time.Second, PermitWithoutStream: true}))
		defer func() { _ = errors.Join(conn.Close(), c.Close()) }()
		tally(t, conn, 1)
		time.Sleep(time.Minute)
		b.put(nil, secondServer)
		close(b.blackhole[firstServer]) // no FIN, nothing
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := who(ctx, conn)
		if took := time.Since(began); status.Code(err) != codes.Unavailable || took > 13*time.Second {
			t.Errorf("the call to a server that vanished ended after %v with %v, want Unavailable by its keep-alive", took, err)
		}
		if name, err := who(ctx, conn, grpc.WaitForReady(true)); err != nil || name != secondServer {
			t.Errorf("got %q, %v, want an answer of the second server", name, err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the second server was reached after %v, want it within about a second of the loss", took)
		}
	})
}

// TestManyClientsSpreadTheirLookups starts 200 channels at one moment.
func TestManyClientsSpreadTheirLookups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, firstServer)
		b.put(nil, firstServer)
		var conns []*grpc.ClientConn
		var channels []*channel.Channel
		for range 200 {
			conn, c := b.dial(channel.Config{})
			conn.Connect()
			conns, channels = append(conns, conn), append(channels, c)
		}
		time.Sleep(10 * time.Minute)
		buckets := make(map[time.Duration]int)
		total := 0
		for _, at := range b.lookups() {
			if at > 30*time.Second {
				buckets[at/time.Second]++
				total++
			}
		}
		mean := total / 570
		for second, n := range buckets {
			if n > 3*mean {
				t.Errorf("got %d lookups in second %d, want at most three times the mean of %d", n, second, mean)
			}
		}
		for i := range conns {
			_ = errors.Join(conns[i].Close(), channels[i].Close())
		}
	})
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend

package test_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// keepAliveFlood is how long the flood of TestFloodLeavesKeepAlivesAlone lasts; the full one takes 20 s.
var keepAliveFlood = flag.Duration("keepalive-flood", 5*time.Second, "how long the flood beside keep-alives lasts")

const (
	keepAliveFloodFrom = "127.0.0.9"
	halfOpenRate       = 1000
	// halfOpenAtOnce is how many unfinished handshakes the attacker holds at a time. One that it needs a place for it
	// drops, whether the server has dropped it before or not.
	halfOpenAtOnce = 8192

	// keepAliveAnswer is how long 99 of 100 answers to a keep-alive may take here, where the flood and others share two
	// processors with the server; keepAliveQuiet is the aim on a machine that has nothing else to do.
	keepAliveAnswer   = time.Second
	keepAliveQuiet    = 100 * time.Millisecond
	keepAliveInterval = 10 * time.Millisecond
	keepAliveGrowth   = 64 << 10 // KiB
)

// Ten thousand reservations, ten thousand counts and a thousand unfinished handshakes a second from one address end no
// session of others, do not hold up their keep-alives, and leave the server's memory as it was.
func TestFloodLeavesKeepAlivesAlone(t *testing.T) {
	alone(t)
	if runtime.GOOS != "linux" {
		t.Skip("it needs a second loopback address and /proc")
	}
	ctx, cancel := context.WithTimeout(t.Context(), *keepAliveFlood+patience)
	defer cancel()
	s := serve(ctx, t, loopback(1))
	clients := connect(t, "chronicle://"+s.Listening+"/?skipTlsValidation=true", floodClients)
	clients.awaitAll(ctx, "")
	good := openGood(ctx, t, s)
	calm := good.measure(ctx, t, time.Second, nil)

	attack := &mixedFlood{addr: s.Listening}
	attack.length = time.Second
	good.measure(ctx, t, patience, attack.run) // the server grows once, by what its bounds allow
	before := residentKiB(t, s.cmd.Process.Pid)
	attack = &mixedFlood{addr: s.Listening, length: *keepAliveFlood}
	under := good.measure(ctx, t, *keepAliveFlood+patience, attack.run)
	after := residentKiB(t, s.cmd.Process.Pid)

	t.Logf("flood of %v: %v", ms(attack.took), attack)
	t.Logf("keep-alives of a good client: calm %v; flooded %v", calm, under)
	t.Logf("memory: %d KiB before, %d KiB after", before, after)
	if under.p99 > keepAliveQuiet {
		t.Logf("99 of 100 answers took up to %v, the aim on a quiet machine is %v", under.p99, keepAliveQuiet)
	}
	if under.p99 > keepAliveAnswer {
		t.Errorf("99 of 100 answers to a keep-alive took up to %v, want %v at most", under.p99, keepAliveAnswer)
	}
	if growth := after - before; growth > keepAliveGrowth {
		t.Errorf("memory grew by %d KiB during the flood, want at most %d KiB", growth, keepAliveGrowth)
	}
	if err := good.end(); err != nil {
		t.Errorf("the good client's session: %v", err)
	}
	if got := clients.finish(ctx); got.Lost != 0 || got.FailedAttempts != 0 {
		t.Errorf("the sessions did not stay up: %+v", got)
	}
	attack.check(t)
}

// goodClient has a session and asks for an answer to its keep-alives more often than it would have to.
type goodClient struct {
	client clientspb.ConnectionServiceClient
	cancel context.CancelFunc
	ended  chan error // why the stream ended
}

// latency is how long calls took.
type latency struct {
	calls                int
	median, p99, longest time.Duration
}

func (l latency) String() string {
	return fmt.Sprintf("%d calls, median %v, p99 %v, longest %v", l.calls,
		l.median.Round(time.Microsecond), l.p99.Round(time.Microsecond), l.longest.Round(time.Microsecond))
}

const goodID = "good"

func openGood(ctx context.Context, t *testing.T, s *serving) *goodClient {
	t.Helper()
	g := &goodClient{client: clientspb.NewConnectionServiceClient(openIdle(ctx, t, s)), ended: make(chan error, 1)}
	ctx, g.cancel = context.WithCancel(ctx)
	t.Cleanup(g.cancel)
	stream, err := g.client.Connect(ctx, &clientspb.ConnectRequest{ConnectionId: goodID})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatalf("the first keep-alive: %v", err)
	}
	go func() {
		for err == nil {
			_, err = stream.Recv()
		}
		g.ended <- err
	}()
	return g
}

// end ends the session, which must be up until then.
func (g *goodClient) end() error {
	select {
	case err := <-g.ended:
		return fmt.Errorf("ended early: %w", err)
	default:
		g.cancel()
		if err := <-g.ended; status.Code(err) != codes.Canceled {
			return fmt.Errorf("ended with %w, want Canceled", err)
		}
		return nil
	}
}

// measure sends keep-alives for as long as length, or until what runs beside them has ended. It sends them at their pace
// whether earlier ones were answered or not, so that a server that stalls is seen as often as it should have answered.
func (g *goodClient) measure(ctx context.Context, t *testing.T, length time.Duration, beside func(context.Context) error) latency {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var group errgroup.Group
	if beside != nil {
		group.Go(func() error {
			defer cancel()
			return beside(ctx)
		})
	}
	ticker := time.NewTicker(keepAliveInterval)
	defer ticker.Stop()
	var mu sync.Mutex
	var took []time.Duration
	for ctx.Err() == nil {
		group.Go(func() error {
			began := time.Now()
			_, err := g.client.ConnectionKeepAlive(t.Context(), &clientspb.ConnectionKeepAlive{ConnectionId: goodID})
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
			return err
		})
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("flood and keep-alives: %v", err)
	}
	slices.Sort(took)
	return latency{calls: len(took), median: took[len(took)/2], p99: took[len(took)*99/100], longest: took[len(took)-1]}
}

// mixedFlood is everything that one address can do without a name.
type mixedFlood struct {
	addr   string
	length time.Duration
	took   time.Duration

	reserved, refused, counted atomic.Int64
	halfOpen, halfFailed       atomic.Int64
}

func (m *mixedFlood) String() string {
	each := func(n int64) string { return fmt.Sprintf("%d (%.0f a second)", n, float64(n)/m.took.Seconds()) }
	return "reservations " + each(m.reserved.Load()+m.refused.Load()) + " of which " + number(int(m.reserved.Load())) +
		" taken, counts " + each(m.counted.Load()) + ", unfinished handshakes " + each(m.halfOpen.Load()) +
		" and " + number(int(m.halfFailed.Load())) + " that could not begin"
}

// check checks that it was the flood that it was meant to be, by and large: a busy machine may not manage the pace.
func (m *mixedFlood) check(t *testing.T) {
	t.Helper()
	want := int64(m.length.Seconds() * floodRate)
	if got := m.reserved.Load() + m.refused.Load(); got < want {
		t.Errorf("the flood made %d reservations, want %d", got, want)
	}
	if got := m.counted.Load(); got < want {
		t.Errorf("the flood asked for %d counts, want %d", got, want)
	}
	if got, want := m.halfOpen.Load(), int64(m.length.Seconds()*halfOpenRate/2); got < want {
		t.Errorf("the flood began %d handshakes, want %d at least", got, want)
	}
	if got := m.reserved.Load(); got > floodBound {
		t.Errorf("%d reservations were taken, want %d at most", got, floodBound)
	}
}

func (m *mixedFlood) dialer() *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(keepAliveFloodFrom)}, Timeout: patience}
}

// run floods for its length, and until all that it has sent was answered.
func (m *mixedFlood) run(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, grouped := errgroup.WithContext(ctx)
	for range floodConns {
		group.Go(func() error { return m.ask(grouped, "POST /connections/reserve", m.tookReservation) })
		group.Go(func() error { return m.ask(grouped, "GET /connections/count", m.tookCount) })
	}
	var half errgroup.Group
	half.Go(func() error { return m.handshakes(ctx) })
	err := group.Wait()
	cancel()
	err = errors.Join(err, half.Wait())
	m.took = time.Since(began)
	return err
}

// ask sends one request over and over on one connection, far more than it waits for answers.
func (m *mixedFlood) ask(ctx context.Context, line string, took func(*http.Response) error) error {
	dialer := tls.Dialer{NetDialer: m.dialer(), Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a server of this test
	conn, err := dialer.DialContext(ctx, "tcp", m.addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // there is nothing more to come
	if err := conn.SetDeadline(time.Now().Add(m.length + patience)); err != nil {
		return err
	}
	size := int(floodRate * floodInterval.Seconds() / floodConns)
	bursts := int(m.length / floodInterval)
	request := line + " HTTP/1.1\r\nHost: " + m.addr + "\r\nContent-Length: 0\r\n\r\n"
	f := &flood{burst: []byte(strings.Repeat(request, size)), size: size}
	var group errgroup.Group
	group.Go(func() error { return f.send(ctx, conn.(*tls.Conn), bursts) })
	group.Go(func() error {
		reader := bufio.NewReader(conn)
		for range bursts * size {
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, response.Body)
			if err = errors.Join(err, response.Body.Close(), took(response)); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

func (m *mixedFlood) tookReservation(response *http.Response) error {
	switch response.StatusCode {
	case http.StatusOK:
		m.reserved.Add(1)
	case http.StatusTooManyRequests:
		m.refused.Add(1)
	default:
		return fmt.Errorf("reservation is answered with %s, want 200 or 429", response.Status)
	}
	return nil
}

func (m *mixedFlood) tookCount(response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("count is answered with %s, want 200", response.Status)
	}
	m.counted.Add(1)
	return nil
}

// handshakes begins handshakes at their pace, with half of what a client would say first, until ctx is done.
func (m *mixedFlood) handshakes(ctx context.Context) error {
	// The header of a TLS record of 512 bytes, and the header of the ClientHello in it (RFC 8446, sections 4 and 5.1).
	half := []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}
	open := make([]net.Conn, halfOpenAtOnce)
	defer func() {
		for _, conn := range open {
			if conn != nil {
				_ = conn.Close() // the server may have been first
			}
		}
	}()
	ticker := time.NewTicker(floodInterval)
	defer ticker.Stop()
	began := time.Now()
	for i := 0; ctx.Err() == nil; {
		for due := int(time.Since(began).Seconds() * halfOpenRate); i < due && ctx.Err() == nil; i++ {
			slot := &open[i%len(open)]
			if *slot != nil {
				_ = (*slot).Close()
			}
			if *slot = m.begin(ctx, half); *slot == nil {
				m.halfFailed.Add(1)
			} else {
				m.halfOpen.Add(1)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// begin returns a connection on which a handshake has begun; nil when the server wanted none.
func (m *mixedFlood) begin(ctx context.Context, half []byte) net.Conn {
	conn, err := m.dialer().DialContext(ctx, "tcp", m.addr)
	if err != nil {
		return nil
	}
	if _, err := conn.Write(half); err != nil {
		_ = conn.Close()
		return nil
	}
	return conn
}

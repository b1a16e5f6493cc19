// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend

package test_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
)

const (
	stockJitter  = 250 * time.Millisecond
	stockSilence = 5 * time.Second // after which a session is dead
)

// stockClient is one client in the shape of a stock one, with an address of its own, so that its reservations are told
// from those of others.
type stockClient struct {
	shape   stockShape
	blind   bool // takes every probe for failed
	from    string
	servers map[string]*stockHTTP // by address
	hosts   []string
	tokens  *stockTokens // nil to do without

	mu           sync.Mutex
	session      stockSession           // guarded by mu; the current one, or the last
	reservations map[string][]time.Time // guarded by mu; by server, those that no Connect has consumed
	failed       []error                // guarded by mu; why attempts failed
	unanswered   []unanswered           // guarded by mu
	changed      chan struct{}          // guarded by mu; closed and replaced at every change
}

// stockTokens say how a client gets its token.
type stockTokens struct {
	id, secret string
	fromFirst  bool // of its hosts, whichever server it has chosen
}

// metadata is what every call carries.
func (c *stockClient) metadata(ctx context.Context, server string) ([]string, error) {
	if c.tokens == nil {
		return c.shape.metadata, nil
	}
	from := server
	if c.tokens.fromFirst {
		from = c.hosts[0]
	}
	token, err := c.servers[from].token(ctx, c.tokens.id, c.tokens.secret)
	carried := []string{"authorization", "Bearer " + token}
	for i := 0; i < len(c.shape.metadata); i += 2 {
		if c.shape.metadata[i] != "authorization" {
			carried = append(carried, c.shape.metadata[i:i+2]...)
		}
	}
	return carried, err
}

// unanswered is a request for a count or a reservation that came to nothing.
type unanswered struct {
	server string
	err    error
}

// stockSession is a session of a stock client.
type stockSession struct {
	generation int
	server     string
	id         string
	answers    int // keep-alives that the server has taken
	up         bool
	since      time.Time
	lost       time.Time // when the one before was lost
}

func newStockClient(shape stockShape, blind bool, from string, hosts []string) *stockClient {
	c := &stockClient{
		shape: shape, blind: blind, from: from, hosts: hosts,
		servers: make(map[string]*stockHTTP), reservations: make(map[string][]time.Time), changed: make(chan struct{}),
	}
	for _, host := range hosts {
		c.servers[host] = newStockHTTP(shape, host, from)
	}
	return c
}

func (c *stockClient) String() string {
	if c.blind {
		return c.shape.name + " that gets no counts at " + c.from
	}
	return c.shape.name + " at " + c.from
}

// change changes what is guarded by mu.
func (c *stockClient) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// snapshot returns the session, and a channel that is closed when anything changes.
func (c *stockClient) snapshot() (s stockSession, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.changed
}

// live runs the client until ctx is done. It returns an error only where something is wrong with this test.
func (c *stockClient) live(ctx context.Context) error {
	defer func() {
		for _, h := range c.servers {
			h.close()
		}
	}()
	for selections := c.shape.selections; ctx.Err() == nil; selections = 1 {
		var server string
		for range selections {
			var err error
			if server, err = c.choose(ctx); err != nil {
				return err
			}
		}
		err := c.hold(ctx, server)
		if ctx.Err() != nil {
			break
		}
		up, _ := c.snapshot()
		c.change(func() {
			if c.session.up {
				c.session.up, c.session.lost = false, time.Now()
			} else {
				c.failed = append(c.failed, err)
			}
		})
		if !up.up || c.shape.retryAfter > time.Second { // the others go on at once after a loss
			pause(ctx, max(c.shape.retryAfter, time.Second))
		}
	}
	return nil
}

// pause waits as a stock client does.
func pause(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// choose picks the server with the fewest clients and reserves there, best effort.
func (c *stockClient) choose(ctx context.Context) (string, error) {
	pause(ctx, mathrand.N(stockJitter))
	counts := make([]int, len(c.hosts))
	var group errgroup.Group
	if !c.shape.parallel {
		group.SetLimit(1)
	}
	for i, host := range c.hosts {
		group.Go(func() error {
			counts[i] = c.probe(ctx, host)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	least := slices.Min(counts)
	var minima []string
	for i, host := range c.hosts {
		if counts[i] == least {
			minima = append(minima, host)
		}
	}
	winner := minima[mathrand.IntN(len(minima))]
	if least == math.MaxInt32 && !c.shape.reserveBlind {
		return winner, nil
	}
	err := c.servers[winner].reserve(ctx)
	c.change(func() {
		if err != nil {
			c.unanswered = append(c.unanswered, unanswered{winner, err})
		} else {
			c.reservations[winner] = append(c.reservations[winner], time.Now())
		}
	})
	return winner, nil
}

// probe returns the count of a server, the highest of all where there is none.
func (c *stockClient) probe(ctx context.Context, host string) int {
	if c.blind {
		// It ends with an error where the server is gone, and then there is no count either.
		_ = c.servers[host].abandon(ctx)
		return math.MaxInt32
	}
	n, err := c.servers[host].count(ctx)
	if err != nil {
		c.change(func() { c.unanswered = append(c.unanswered, unanswered{host, err}) })
		return math.MaxInt32
	}
	return n
}

// hold has a session with a server until it is lost, and returns why.
func (c *stockClient) hold(ctx context.Context, server string) error {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}}
	conn, err := grpc.NewClient("passthrough:///"+server,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})), //nolint:gosec // a server of this test
		grpc.WithUserAgent(c.shape.userAgent), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) }))
	if err != nil {
		return err
	}
	carried, err := c.metadata(ctx, server)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, carried...))
	defer cancel()
	return errors.Join(c.talk(ctx, cancel, conn, server), conn.Close())
}

// talk is the session itself: Connect, and a unary answer to each keep-alive that comes.
func (c *stockClient) talk(ctx context.Context, cancel func(), conn *grpc.ClientConn, server string) error {
	if c.shape.asks {
		if _, err := hostpb.NewServerClient(conn).GetVersionInfo(ctx, &emptypb.Empty{}); err != nil {
			return fmt.Errorf("GetVersionInfo: %w", err)
		}
	}
	client := clientspb.NewConnectionServiceClient(conn)
	request := c.request()
	stream, err := client.Connect(ctx, request)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	watchdog := time.AfterFunc(stockSilence, cancel)
	defer watchdog.Stop()
	for first := true; ; first = false {
		keepAlive, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("keep-alive: %w", err)
		}
		if got := keepAlive.GetConnectionId(); got != request.GetConnectionId() {
			return fmt.Errorf("keep-alive is for %q", got)
		}
		watchdog.Reset(stockSilence)
		if first {
			c.consume(server)
		}
		if first && c.shape.firstIsUp {
			c.begin(server, request.GetConnectionId())
		}
		if _, err := client.ConnectionKeepAlive(ctx, keepAlive); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		if first && !c.shape.firstIsUp {
			c.begin(server, request.GetConnectionId())
		}
		c.change(func() { c.session.answers++ })
	}
}

// consume notes that the server has taken the client for the oldest of its reservations.
func (c *stockClient) consume(server string) {
	c.change(func() {
		if made := c.reservations[server]; len(made) > 0 {
			c.reservations[server] = made[1:]
		}
	})
}

func (c *stockClient) begin(server, id string) {
	c.change(func() {
		c.session = stockSession{
			generation: c.session.generation + 1, server: server, id: id, up: true, since: time.Now(), lost: c.session.lost,
		}
	})
}

// request is a Connect with an id of its own, as every attempt has.
func (c *stockClient) request() *clientspb.ConnectRequest {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it returns no error
	id := hex.EncodeToString(b[:8])
	if !c.shape.hexID {
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
		id = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	request := &clientspb.ConnectRequest{
		ConnectionId: id, ClientVersion: "1.0.0", ProcessId: 4711, MachineName: "machine", ClientType: c.shape.clientType,
	}
	if !c.shape.noPath {
		request.ProcessPath = "/opt/app/program"
	}
	return request
}

// left returns how many unconsumed reservations a server must still count, and how many it may: those which end about
// now are neither.
func (c *stockClient) left(server string, now time.Time) (least, most int) {
	const lifetime, slack = 30 * time.Second, time.Second
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range c.reservations[server] {
		if age := now.Sub(made); age < lifetime-slack {
			least, most = least+1, most+1
		} else if age < lifetime+slack {
			most++
		}
	}
	return least, most
}

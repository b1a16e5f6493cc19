// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend

package test_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	keel "github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/server"
)

// Flags of the test program.
var (
	chaosFor  = flag.Duration("chaos", 20*time.Second, "how long TestHoldChaos disturbs its servers")
	chaosSeed = flag.Uint64("chaosseed", 0, "what TestHoldChaos does in which order; 0 draws one")
)

const (
	chaosServers   = 5
	chaosClients   = 200
	chaosNewcomers = 20
	// chaosPause is the longest time between two faults, chaosQuiet the time without any before newcomers come.
	chaosPause = 1200 * time.Millisecond
	chaosQuiet = 5 * time.Second
	// chaosHeal bounds the time until all is well after the last fault: the longest backoff, and an attempt.
	chaosHeal = 90 * time.Second
)

// Five servers are killed, started, drained, stalled, cut off and replaced at random, and their name server fails, under
// 200 clients. One server at least is well at any time. Once all is well again, every client has a session, and the servers
// know of these and of no others.
//
// The spread of the 200 is not looked at: clients stay where they are when a server comes back. What has to hold is that
// newcomers go to where the fewest are. That no goroutine is left is checked after all tests of the package.
func TestHoldChaos(t *testing.T) {
	alone(t)
	ctx, cancel := context.WithTimeout(t.Context(), *chaosFor+chaosHeal+time.Minute)
	defer cancel()
	c := startChaos(ctx, t)
	c.rage(ctx)
	healed := time.Now()
	c.heal()
	c.awaitAgreement(ctx)
	t.Logf("all is well %v after the last fault was ended", ms(time.Since(healed)))
	quiet := time.NewTimer(chaosQuiet)
	defer quiet.Stop()
	<-quiet.C
	c.awaitAgreement(ctx)
	c.welcome(ctx)
	c.awaitAgreement(ctx)
	c.report()
	c.close(ctx)
}

// chaos is a cluster, its clients, and what is wrong with it at the moment.
type chaos struct {
	t       *testing.T
	rand    *rand.Rand
	cluster *evenkeeltest.Cluster
	prober  *balance.HTTPProber
	clients []*chaosClient
	stalled map[*evenkeeltest.Server]bool
	drains  map[*evenkeeltest.Server]chan error // of the drains that were begun and not asked about
	done    map[string]int                      // how often each thing was done
}

// chaosClient is a client and what has become of it.
type chaosClient struct {
	conn *keel.Conn

	mu      sync.Mutex // guards what follows
	lost    int
	left    int
	since   time.Time // when the session was lost; zero while there is one
	longest time.Duration
}

func (c *chaosClient) event(e keel.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Kind {
	case keel.EventLost:
		c.lost++
		c.since = e.Time
	case keel.EventLeaving:
		c.left++
	case keel.EventConnected:
		if !c.since.IsZero() {
			c.longest = max(c.longest, e.Time.Sub(c.since))
		}
		c.since = time.Time{}
	}
}

// startChaos starts the cluster and waits until all clients have a session.
func startChaos(ctx context.Context, t *testing.T) *chaos {
	t.Helper()
	seed := cmp.Or(*chaosSeed, rand.Uint64())
	t.Logf("-chaosseed %d", seed)
	c := &chaos{
		t: t, rand: rand.New(rand.NewPCG(seed, seed)), //nolint:gosec // to be repeated, not to be secret
		stalled: make(map[*evenkeeltest.Server]bool), drains: make(map[*evenkeeltest.Server]chan error), done: make(map[string]int),
		cluster: evenkeeltest.Start(t, evenkeeltest.Config{
			Servers: chaosServers, Relays: true, DrainLimit: 3 * time.Second,
			Registry: server.RegistryConfig{DrainPeriod: time.Second},
		}),
	}
	prober, err := balance.NewProber(balance.ProberConfig{TLS: c.cluster.TLS()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := prober.Close(); err != nil {
			t.Error(err)
		}
	})
	c.prober = prober
	for range chaosClients {
		c.add()
	}
	for number, client := range c.clients {
		if err := client.conn.WaitReady(ctx); err != nil {
			t.Fatalf("client %d: %v", number, err)
		}
	}
	return c
}

// add begins one more client.
func (c *chaos) add() *chaosClient {
	c.t.Helper()
	client := &chaosClient{}
	conn, err := keel.New(c.cluster.SRVConnectionString(), keel.WithTLS(c.cluster.TLS()), keel.WithEvents(client.event),
		keel.WithLeastConnections(balance.LeastConnectionsConfig{Prober: c.prober}))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			c.t.Error(err)
		}
	})
	client.conn = conn
	c.clients = append(c.clients, client)
	return client
}

// rage does one thing after the other.
func (c *chaos) rage(ctx context.Context) {
	c.t.Helper()
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for time.Since(began) < *chaosFor {
		select {
		case <-timer.C:
		case <-ctx.Done():
			c.t.Fatal(ctx.Err())
		}
		c.strike(ctx)
		timer.Reset(time.Duration(c.rand.Int64N(int64(chaosPause))))
	}
}

// strike does one thing at random: it ends what is wrong with a server, or begins something with one that is well while
// another one is.
func (c *chaos) strike(ctx context.Context) {
	c.t.Helper()
	s := c.cluster.Servers[c.rand.IntN(len(c.cluster.Servers))]
	what := c.rand.IntN(7)
	switch {
	case c.stalled[s]:
		c.did("resume")
		s.Relay().Resume()
		delete(c.stalled, s)
	case !s.Running():
		c.did("restart")
		c.must(s.Restart())
	case c.drains[s] != nil && c.draining(s):
		c.did("kill while draining")
		c.must(s.Kill())
	case what == 6:
		c.disturbDNS()
	case c.well() < 2:
		c.did("spare the last one")
	default:
		c.disturb(ctx, s, what)
	}
}

// disturb begins something with a server that is well.
func (c *chaos) disturb(ctx context.Context, s *evenkeeltest.Server, what int) {
	c.t.Helper()
	switch what {
	case 0:
		c.did("kill")
		c.must(s.Kill())
	case 1:
		c.did("restart at once")
		c.must(s.Restart())
	case 2:
		c.did("drain")
		ended := make(chan error, 1)
		c.drains[s] = ended
		go func() { ended <- s.Drain(ctx) }()
	case 3:
		c.did("stall")
		s.Relay().Stall()
		c.stalled[s] = true
	case 4:
		c.did("reset the connections")
		s.Relay().Reset()
	case 5:
		c.did("replace")
		c.must(c.cluster.RemoveServer(s))
		_, err := c.cluster.AddServer()
		c.must(err)
	}
}

// disturbDNS begins or ends a fault of the name server.
func (c *chaos) disturbDNS() {
	c.t.Helper()
	faults := []evenkeeltest.DNSFault{{}, {}, {Code: "SERVFAIL"}, {Truncate: true}, {Delay: 500 * time.Millisecond}, {Silent: true}}
	c.did("change what the name server does")
	c.must(c.cluster.DNS.SetFault("", "", faults[c.rand.IntN(len(faults))]))
}

// draining says whether a drain is going on, and forgets one that has ended.
func (c *chaos) draining(s *evenkeeltest.Server) bool {
	c.t.Helper()
	select {
	case err := <-c.drains[s]:
		c.drained(s, err)
		return false
	default:
		return true
	}
}

// drained takes the end of a drain in: that clients were left at the limit, or a kill, is no fault here.
func (c *chaos) drained(s *evenkeeltest.Server, err error) {
	c.t.Helper()
	delete(c.drains, s)
	if err != nil && !errors.Is(err, server.ErrDrainLimit) {
		c.t.Errorf("drain of %s: %v", s.Name(), err)
	}
}

// well is how many servers nothing is wrong with.
func (c *chaos) well() int {
	n := 0
	for _, s := range c.cluster.Servers {
		if s.Running() && !c.stalled[s] && c.drains[s] == nil {
			n++
		}
	}
	return n
}

func (c *chaos) did(what string) { c.done[what]++ }

func (c *chaos) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// heal ends everything that is wrong.
func (c *chaos) heal() {
	c.t.Helper()
	c.cluster.DNS.ClearFaults()
	for s := range c.stalled {
		s.Relay().Resume()
	}
	clear(c.stalled)
	for s, ended := range maps.Clone(c.drains) {
		c.drained(s, <-ended)
	}
	for _, s := range c.cluster.Servers {
		if !s.Running() {
			c.must(s.Restart())
		}
	}
}

// awaitAgreement waits until every client has a session, and each server counts those that are on it.
func (c *chaos) awaitAgreement(ctx context.Context) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, chaosHeal)
	defer cancel()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		told, counted := c.sessions(), c.counts()
		if told[""] == 0 && maps.Equal(told, counted) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			c.complain()
			c.t.Fatalf("clients have sessions on %v, servers count %v", told, counted)
		}
	}
}

// sessions are how many clients say that they are on which server; without a session they are on "".
func (c *chaos) sessions() map[string]int {
	on := make(map[string]int)
	for _, s := range c.cluster.Servers {
		on[s.Name()+":"+portOf(s)] = 0
	}
	for _, client := range c.clients {
		on[client.conn.Server().Addr()]++
	}
	return on
}

// counts are what the servers count.
func (c *chaos) counts() map[string]int {
	counts := make(map[string]int)
	for _, s := range c.cluster.Servers {
		counts[s.Name()+":"+portOf(s)] = s.Count()
	}
	return counts
}

func portOf(s *evenkeeltest.Server) string { return number(int(s.Endpoint().Port)) }

// complain says what is known of the clients that are not ready.
func (c *chaos) complain() {
	c.t.Helper()
	for number, client := range c.clients {
		if status := client.conn.Status(); status.State != keel.StateReady {
			c.t.Errorf("client %d: %v; its events: %v", number, status, status.Events)
		}
	}
}

// welcome lets clients come one after the other: each goes to a server with the fewest.
func (c *chaos) welcome(ctx context.Context) {
	c.t.Helper()
	for range chaosNewcomers {
		c.awaitAgreement(ctx)
		counts := c.counts()
		fewest := slices.Min(slices.Collect(maps.Values(counts)))
		client := c.add()
		if err := client.conn.WaitReady(ctx); err != nil {
			c.t.Fatal(err)
		}
		if got := client.conn.Server().Addr(); counts[got] != fewest {
			c.t.Errorf("a newcomer went to %s of %v", got, counts)
		}
	}
}

// report logs what it was like.
func (c *chaos) report() {
	c.t.Helper()
	lost, left := 0, 0
	var longest time.Duration
	for _, client := range c.clients {
		client.mu.Lock()
		lost, left, longest = lost+client.lost, left+client.left, max(longest, client.longest)
		client.mu.Unlock()
	}
	c.t.Logf("in %v: %v", *chaosFor, c.done)
	c.t.Logf("%d sessions lost, %d left for another; the longest time without one was %v; spread at the end %v",
		lost, left, ms(longest), sortedCounts(c.counts()))
	if lost == 0 {
		c.t.Error("no session was lost, so nothing has been tried")
	}
}

// close closes all clients: no server counts any.
func (c *chaos) close(ctx context.Context) {
	c.t.Helper()
	var closing sync.WaitGroup
	for _, client := range c.clients {
		closing.Go(func() {
			if err := client.conn.Close(); err != nil {
				c.t.Error(err)
			}
		})
	}
	closing.Wait()
	if err := c.cluster.WaitCount(ctx, 0); err != nil {
		c.t.Error(err)
	}
}

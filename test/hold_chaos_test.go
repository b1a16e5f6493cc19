// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && unix

package test_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	keel "github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
)

// Flags of the test program.
var (
	chaosFor  = flag.Duration("chaos", 20*time.Second, "how long TestHoldChaos disturbs its servers; give a longer -timeout from 5m on")
	chaosSeed = flag.Uint64("chaosseed", 0, "what TestHoldChaos does in which order; 0 draws one")
)

const (
	chaosServers   = 5
	chaosClients   = 200
	chaosNewcomers = 20
	// chaosHeal bounds the time until all is well after the last fault: the longest backoff, and an attempt.
	chaosHeal = 90 * time.Second
	// chaosSpare is what a run may take beyond -chaos: the last round, the end, and a busy machine.
	chaosSpare = 2*chaosHeal + 2*time.Minute
	// progressInterval is how often a run says how it is going, with -v.
	progressInterval = 10 * time.Second
	// toldStrikes is how many of the last strikes a run that has failed tells.
	toldStrikes = 60
)

// Five servers, in processes of their own and behind a network of their own, are killed, stopped, continued, drained,
// restarted, replaced, cut off and listed otherwise at random, and their name server fails, under 200 clients. One server
// at least is well at any time. It goes in rounds:
//
//   - a storm of faults, several at a time;
//   - a calm: all faults are ended. Every client has a session, and each server counts those that are on it, and no other.
//     Sessions stay where they are when a server comes back, so an operator's rebalancing follows: clients of the fullest
//     servers are asked to select anew, one after the other. The fullest server then has at most ceil(1.2 × mean), no
//     session was lost by it, and none of them moves after it;
//   - a blow: one fault of one server. Its clients alone move, without help, and then the fullest of the other servers has
//     at most ceil(1.2 × mean).
//
// Where so many clients hold a failure against a server that the mean is out of reach, checkSpread says what takes its
// place; the report says how often that was.
//
// In the end newcomers go to where the fewest are, servers and clients name the same sessions, and when all of it is closed
// no connection, descriptor, goroutine or process is left.
//
// The same -chaosseed strikes the same blows in the same order; what they meet depends on how fast the machine is. The
// test runs beside no other, since it counts what is left in its process.
func TestHoldChaos(t *testing.T) {
	if end, bounded := t.Deadline(); bounded && time.Until(end) < *chaosFor+chaosSpare {
		t.Fatalf("-chaos %v needs a -timeout of %v at least", *chaosFor, *chaosFor+chaosSpare)
	}
	ctx, cancel := context.WithTimeout(t.Context(), *chaosFor+chaosSpare)
	defer cancel()
	present := goleak.IgnoreCurrent()
	before := leftovers(t)
	c := startChaos(ctx, t)
	for time.Since(c.began) < *chaosFor {
		c.storm(ctx)
		c.calm(ctx)
		c.blow(ctx)
		c.rounds.Add(1)
	}
	c.calm(ctx)
	c.stopProgress()
	c.welcome(ctx)
	c.awaitAgreement(ctx)
	c.checkIDs(ctx)
	c.report()
	c.closeClients(ctx)
	c.cluster.end()
	c.lag.end()
	awaitLeftovers(ctx, t, before)
	if err := goleak.Find(present); err != nil {
		t.Error(err)
	}
}

// chaos is a cluster, its clients, and what is done to them.
type chaos struct {
	t       *testing.T
	rand    *rand.Rand
	cluster *chaosCluster
	prober  *balance.HTTPProber
	clients []*chaosClient
	began   time.Time
	done    map[string]int // how often each thing was done
	last    []string       // the last things done
	figures chaosFigures
	lag     *lagMeter

	strikes, rounds atomic.Int64 // for the progress
	progress        context.CancelFunc
	telling         sync.WaitGroup
}

// chaosFigures are what a run has measured.
type chaosFigures struct {
	healed  []time.Duration  // until all was well after a storm
	after   []int            // the fullest server after a storm and before the rebalancing, in percent of the mean
	levels  []int            // the same after the rebalancing
	settled map[string][]int // and after a blow, by the blow
	looks   int              // how often a spread was looked at
	crowded int              // how often it was too uneven after a blow on a machine that was too busy for another one
	held    []int            // the least possible, in percent of the mean, where it was more than that
	took    []time.Duration  // until all was well beside the server of a blow
	moved   int              // clients that the rebalancing has moved
	stayed  int              // clients that were asked, and stayed
	leveled []time.Duration  // how long the rebalancing took
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
		done: make(map[string]int), figures: chaosFigures{settled: make(map[string][]int)},
		cluster: startChaosCluster(ctx, t, chaosServers, *chaosFor+chaosSpare), lag: startLagMeter(t),
	}
	t.Cleanup(c.tellStrikes)
	prober, err := balance.NewProber(balance.ProberConfig{TLS: c.cluster.ca.tls()})
	if err != nil {
		t.Fatal(err)
	}
	c.prober = prober
	t.Cleanup(c.endClients)
	for range chaosClients {
		c.add()
	}
	for number, client := range c.clients {
		if err := client.conn.WaitReady(ctx); err != nil {
			t.Fatalf("client %d: %v", number, err)
		}
	}
	c.awaitAgreement(ctx)
	c.began = time.Now()
	c.startProgress(ctx)
	return c
}

// add begins one more client.
func (c *chaos) add() *chaosClient {
	c.t.Helper()
	client := &chaosClient{}
	conn, err := keel.New(c.cluster.target(), keel.WithTLS(c.cluster.ca.tls()), keel.WithEvents(client.event),
		keel.WithLeastConnections(balance.LeastConnectionsConfig{Prober: c.prober}))
	if err != nil {
		c.t.Fatal(err)
	}
	client.conn = conn
	c.clients = append(c.clients, client)
	return client
}

// endClients closes the clients and what they share. It may be called twice.
func (c *chaos) endClients() {
	c.t.Helper()
	c.stopProgress()
	var closing sync.WaitGroup
	for _, client := range c.clients {
		closing.Go(func() {
			if err := client.conn.Close(); err != nil {
				c.t.Error(err)
			}
		})
	}
	closing.Wait()
	if c.prober == nil {
		return
	}
	if err := c.prober.Close(); err != nil {
		c.t.Error(err)
	}
	c.prober = nil
}

// closeClients closes all clients: no server counts any, and none has a connection left.
func (c *chaos) closeClients(ctx context.Context) {
	c.t.Helper()
	c.endClients()
	c.clients = nil
	c.awaitAgreement(ctx)
	c.cluster.http.CloseIdleConnections()
	c.cluster.awaitUnconnected(ctx)
}

// startProgress says every now and then how it is going.
func (c *chaos) startProgress(ctx context.Context) {
	ctx, c.progress = context.WithCancel(ctx)
	if !testing.Verbose() {
		return
	}
	clients := slices.Clone(c.clients)
	c.telling.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				now := tallyOf(clients)
				c.t.Logf("%v: round %d, %d strikes, %d of %d clients ready, %d sessions lost, %d left",
					time.Since(c.began).Round(time.Second), c.rounds.Load()+1, c.strikes.Load(), now.ready, len(clients), now.lost, now.left)
			case <-ctx.Done():
				return
			}
		}
	})
}

func (c *chaos) stopProgress() {
	if c.progress != nil {
		c.progress()
	}
	c.telling.Wait()
}

// did keeps what was done.
func (c *chaos) did(what string, to *chaosServer) {
	c.done[what]++
	if to != nil {
		what += " " + to.name
	}
	c.last = append(c.last, fmt.Sprintf("%8v %s", ms(time.Since(c.began)), what))
	if len(c.last) > toldStrikes {
		c.last = slices.Delete(c.last, 0, len(c.last)-toldStrikes)
	}
}

// tellStrikes says what was done last when the test has failed.
func (c *chaos) tellStrikes() {
	if c.t.Failed() {
		c.t.Logf("the last strikes:\n%s", strings.Join(c.last, "\n"))
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && unix

package test_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	keel "github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

const (
	lagInterval = 20 * time.Millisecond
	// toldClients is how many clients are told of that are not ready.
	toldClients = 10
)

// awaitAgreement waits until every client has a session on a server that is well, and each of these counts those that are
// on it.
func (c *chaos) awaitAgreement(ctx context.Context) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, chaosHeal)
	defer cancel()
	ticker := time.NewTicker(chaosLook)
	defer ticker.Stop()
	for {
		c.cluster.reap()
		told := c.sessions()
		counted, err := c.cluster.counts(ctx)
		if err == nil && maps.Equal(told, counted) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			c.complain()
			c.t.Fatalf("clients have sessions on %v, servers count %v (%v)", told, counted, err)
		}
	}
}

// sessions are how many clients say that they are on which server; those without a session are on "".
func (c *chaos) sessions() map[string]int {
	on := make(map[string]int)
	for _, client := range c.clients {
		if client.conn.State() == keel.StateReady {
			on[client.conn.Server().Addr()]++
		} else {
			on[""]++
		}
	}
	return on
}

// complain says what is known of the clients that are not ready.
func (c *chaos) complain() {
	c.t.Helper()
	told := 0
	for number, client := range c.clients {
		status := client.conn.Status()
		if status.State == keel.StateReady {
			continue
		}
		if told++; told <= toldClients {
			c.t.Errorf("client %d: %v; its events: %v", number, status, status.Events)
		}
	}
	c.t.Logf("%d clients are not ready", told)
}

// welcome lets clients come one after the other: each goes to a server with the fewest.
func (c *chaos) welcome(ctx context.Context) {
	c.t.Helper()
	for range chaosNewcomers {
		c.awaitAgreement(ctx)
		counts := c.sessions()
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

// checkIDs compares the sessions that clients have with those that servers list.
func (c *chaos) checkIDs(ctx context.Context) {
	c.t.Helper()
	want := make(map[string][]string)
	for _, client := range c.clients {
		status := client.conn.Status()
		want[status.Endpoint.Host] = append(want[status.Endpoint.Host], status.ConnectionID)
	}
	for _, s := range c.cluster.servers {
		got, err := c.cluster.listed(ctx, s)
		if err != nil {
			c.t.Errorf("ask %s for its clients: %v", s.name, err)
			continue
		}
		slices.Sort(got)
		slices.Sort(want[s.name])
		if !slices.Equal(got, want[s.name]) {
			c.t.Errorf("%s lists the sessions %v, and the clients that are on it have %v", s.name, got, want[s.name])
		}
	}
}

// listed are the sessions that a server lists. It is asked without one.
func (c *chaosCluster) listed(ctx context.Context, s *chaosServer) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := keel.Dial(ctx, "chronicle://"+s.listen, keel.WithTLS(c.ca.tls()), keel.WithoutSession())
	if err != nil {
		return nil, err
	}
	list, err := clientspb.NewConnectionServiceClient(conn).GetConnectedClients(ctx, &emptypb.Empty{})
	if err != nil {
		return nil, fmt.Errorf("%w, %w", err, conn.Close())
	}
	ids := make([]string, 0, len(list.GetItems()))
	for _, item := range list.GetItems() {
		ids = append(ids, item.GetConnectionId())
	}
	return ids, conn.Close()
}

// tally is what has become of clients.
type tally struct{ ready, lost, left int }

func tallyOf(clients []*chaosClient) tally {
	var sum tally
	for _, client := range clients {
		if client.conn.State() == keel.StateReady {
			sum.ready++
		}
		client.mu.Lock()
		sum.lost, sum.left = sum.lost+client.lost, sum.left+client.left
		client.mu.Unlock()
	}
	return sum
}

// report logs what it was like.
func (c *chaos) report() {
	c.t.Helper()
	sum := tallyOf(c.clients)
	var longest time.Duration
	for _, client := range c.clients {
		client.mu.Lock()
		longest = max(longest, client.longest)
		client.mu.Unlock()
	}
	f := c.figures
	c.t.Logf("%d strikes in %d rounds, %v: %v", c.strikes.Load(), c.rounds.Load(), time.Since(c.began).Round(time.Second), c.done)
	c.t.Logf("%d sessions lost, %d left for another; the longest time without one was %v", sum.lost, sum.left, ms(longest))
	c.t.Logf("all was well a median of %v after a storm, %v at most; beside the server of a blow %v, %v at most",
		ms(median(f.healed)), ms(slices.Max(f.healed)), ms(median(f.took)), ms(slices.Max(f.took)))
	c.t.Logf("the fullest server, in percent of the mean: after storms %v, rebalanced %v, after blows %v", f.after, f.levels, f.settled)
	c.t.Logf("of %d spreads, what clients hold against servers put the mean out of reach of %d: %v percent; %d were not judged",
		f.looks, len(f.held), f.held, f.crowded)
	c.t.Logf("the rebalancing moved %d clients, %d asked stayed; it took a median of %v, at most %v",
		f.moved, f.stayed, ms(median(f.leveled)), ms(slices.Max(f.leveled)))
	if longest >= chaosHeal {
		c.t.Errorf("a client had no session for %v, want less than %v", ms(longest), chaosHeal)
	}
	if sum.lost == 0 || sum.left == 0 {
		c.t.Errorf("%d sessions were lost and %d left, so not everything has been tried", sum.lost, sum.left)
	}
}

// tls are the settings of a client that trusts the authority.
func (a *authority) tls() *tls.Config {
	return &tls.Config{RootCAs: a.ca.Pool(), MinVersion: tls.VersionTLS12}
}

// lagMeter measures by how much this process is late.
type lagMeter struct {
	reads chan chan time.Duration
	ended chan struct{}
	end   func() // it may be called twice
}

// startLagMeter measures until its end, or that of the test.
func startLagMeter(t *testing.T) *lagMeter {
	t.Helper()
	m := &lagMeter{reads: make(chan chan time.Duration), ended: make(chan struct{})}
	m.end = sync.OnceFunc(func() {
		close(m.reads)
		<-m.ended
	})
	t.Cleanup(m.end)
	go m.run()
	return m
}

// run measures until reads is closed; each reading begins anew.
func (m *lagMeter) run() {
	defer close(m.ended)
	ticker := time.NewTicker(lagInterval)
	defer ticker.Stop()
	last, worst := time.Now(), time.Duration(0)
	for {
		select {
		case now := <-ticker.C:
			worst, last = max(worst, time.Since(last)-lagInterval), now
		case reply, open := <-m.reads:
			if !open {
				return
			}
			reply <- max(worst, time.Since(last)-lagInterval)
			worst = 0
		}
	}
}

// worst is by how much the process was late at most since it was read last.
func (m *lagMeter) worst() time.Duration {
	reply := make(chan time.Duration, 1)
	m.reads <- reply
	return <-reply
}

func (m *lagMeter) reset() { _ = m.worst() }

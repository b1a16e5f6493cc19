// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evenkeel-go/evenkeel/channel"
)

// patience is how long a test waits for what must happen; a machine under load is slow.
const patience = 20 * time.Second

// quick is a config that looks often.
func quick() channel.Config {
	return channel.Config{Interval: 100 * time.Millisecond, MinInterval: 20 * time.Millisecond, MaxInterval: time.Second}
}

// testContext ends with the test, and after patience.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// news keeps what a channel has told.
type news struct {
	mu          sync.Mutex
	resolutions []channel.Resolution
	changes     []channel.Change
	endpoints   []channel.EndpointState
	arrived     chan struct{} // closed and replaced when something comes
}

// hear has a config tell its news. Callbacks of the config are replaced.
func hear(config *channel.Config) *news {
	n := &news{arrived: make(chan struct{})}
	config.OnResolve = func(r channel.Resolution) { n.note(func() { n.resolutions = append(n.resolutions, r) }) }
	config.OnChange = func(c channel.Change) { n.note(func() { n.changes = append(n.changes, c) }) }
	config.OnEndpoint = func(e channel.EndpointState) { n.note(func() { n.endpoints = append(n.endpoints, e) }) }
	return n
}

func (n *news) note(add func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	add()
	close(n.arrived)
	n.arrived = make(chan struct{})
}

// wait returns when the condition holds; it is called whenever news come.
func (n *news) wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		n.mu.Lock()
		ok, arrived := holds(), n.arrived
		n.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-arrived:
		case <-limit.C:
			t.Fatalf("%s: did not happen", what)
		}
	}
}

// resolved waits for n more resolutions than there are.
func (n *news) resolved(t *testing.T, more int) {
	t.Helper()
	n.mu.Lock()
	want := len(n.resolutions) + more
	n.mu.Unlock()
	n.wait(t, "resolutions", func() bool { return len(n.resolutions) >= want })
}

// change returns the change of a number.
func (n *news) change(i int) channel.Change {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changes[i]
}

// firstClass returns the class of the first resolution.
func (n *news) firstClass() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.resolutions[0].Class
}

func (n *news) changeCount() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.changes)
}

// open makes a channel that is closed when the test ends.
func open(t *testing.T, config channel.Config) *channel.Channel {
	t.Helper()
	c, err := channel.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// dial makes a channel of grpc-go, without TLS unless the options say so, that is closed when the test ends.
func dial(t *testing.T, c *channel.Channel, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	all := append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, c.DialOptions()...)
	conn, err := grpc.NewClient(target, append(all, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// tally makes n calls, none of which may fail, and counts who answered.
func tally(t *testing.T, conn grpc.ClientConnInterface, n int) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for range n {
		name, err := who(testContext(t), conn)
		if err != nil {
			t.Fatalf("call failed: %v", err)
		}
		counts[name]++
	}
	return counts
}

// reaches calls until the servers that answer a row of calls are exactly those wanted. No call may fail.
func reaches(t *testing.T, conn grpc.ClientConnInterface, want ...string) {
	t.Helper()
	slices.Sort(want)
	deadline := time.Now().Add(patience)
	for {
		got := slices.Sorted(maps.Keys(tally(t, conn, 4*len(want))))
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got answers of %v, want those of %v", got, want)
		}
		tick(t)
	}
}

// serves calls until a call succeeds.
func serves(t *testing.T, conn grpc.ClientConnInterface) string {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		name, err := who(testContext(t), conn)
		if err == nil {
			return name
		}
		if time.Now().After(deadline) {
			t.Fatalf("no call has succeeded: %v", err)
		}
		tick(t)
	}
}

// tick lets a moment pass between two looks at something that tells no events.
func tick(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(5 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

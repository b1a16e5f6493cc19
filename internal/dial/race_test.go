// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package dial_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/dial"
)

// network is what the addresses of a test do when they are dialled, and what was dialled when.
type network struct {
	began time.Time
	// after is how long an address takes; an address that is not in it never answers.
	after map[string]time.Duration
	// refuses are the addresses that fail instead of connecting.
	refuses map[string]error
	// deaf are the addresses whose connect does not heed its context.
	deaf map[string]bool

	mu     sync.Mutex
	dials  []string // "address at time"
	open   int      // connections not closed
	active int      // dials under way
}

func (n *network) connect(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	name := addr.String()
	n.mu.Lock()
	n.dials = append(n.dials, fmt.Sprintf("%s at %v", name, time.Since(n.began)))
	n.active++
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.active--
		n.mu.Unlock()
	}()
	var done <-chan time.Time
	if after, answers := n.after[name]; answers {
		done = time.After(after)
	}
	ended := ctx.Done()
	if n.deaf[name] {
		ended = nil
	}
	select {
	case <-done:
	case <-ended:
		return nil, fmt.Errorf("%s: %w", name, ctx.Err())
	}
	if err := n.refuses[name]; err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open++
	return &fakeConn{network: n, name: name}, nil
}

type fakeConn struct {
	net.Conn
	network *network
	name    string
}

func (c *fakeConn) Close() error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.network.open--
	return nil
}

func endpoint(addrs ...string) discover.Endpoint {
	e := discover.Endpoint{Host: "node1.test", Port: 1}
	for _, addr := range addrs {
		e.Addrs = append(e.Addrs, netip.MustParseAddrPort(addr))
	}
	return e
}

var errRefused = errors.New("refused")

const (
	a4, b4, c4 = "10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"
	a6, b6     = "[fd00::1]:1", "[fd00::2]:1"
)

func TestRace(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		addrs   []string
		network network
		winner  string // empty: all fail
		took    time.Duration
		dials   []string
		errs    []string
	}{{
		name:    "one address",
		addrs:   []string{a4},
		network: network{after: map[string]time.Duration{a4: 10 * time.Millisecond}},
		winner:  a4, took: 10 * time.Millisecond, dials: []string{a4 + " at 0s"},
	}, {
		name:    "the first address wins when it is quick enough",
		addrs:   []string{a6, a4},
		network: network{after: map[string]time.Duration{a6: 249 * time.Millisecond, a4: 0}},
		winner:  a6, took: 249 * time.Millisecond, dials: []string{a6 + " at 0s"},
	}, {
		name:    "a silent address has 250 ms before the next one starts",
		addrs:   []string{a6, a4},
		network: network{after: map[string]time.Duration{a4: 10 * time.Millisecond}},
		winner:  a4, took: 260 * time.Millisecond, dials: []string{a6 + " at 0s", a4 + " at 250ms"},
	}, {
		name:    "a slow address that was started first can still win",
		addrs:   []string{a6, a4},
		network: network{after: map[string]time.Duration{a6: 300 * time.Millisecond, a4: time.Second}},
		winner:  a6, took: 300 * time.Millisecond, dials: []string{a6 + " at 0s", a4 + " at 250ms"},
	}, {
		name:  "a failure starts the next address at once",
		addrs: []string{a4, b4, c4},
		network: network{
			after:   map[string]time.Duration{a4: 5 * time.Millisecond, b4: 5 * time.Millisecond, c4: 5 * time.Millisecond},
			refuses: map[string]error{a4: errRefused, b4: errRefused},
		},
		winner: c4, took: 15 * time.Millisecond, dials: []string{a4 + " at 0s", b4 + " at 5ms", c4 + " at 10ms"},
	}, {
		name:    "families alternate and keep their order",
		addrs:   []string{a6, b6, a4, b4, c4},
		network: network{after: map[string]time.Duration{c4: 0}},
		winner:  c4, took: time.Second,
		dials: []string{a6 + " at 0s", a4 + " at 250ms", b6 + " at 500ms", b4 + " at 750ms", c4 + " at 1s"},
	}, {
		name:    "IPv4 goes first when the resolver says so",
		addrs:   []string{a4, b4, a6},
		network: network{after: map[string]time.Duration{b4: 0}},
		winner:  b4, took: 500 * time.Millisecond,
		dials: []string{a4 + " at 0s", a6 + " at 250ms", b4 + " at 500ms"},
	}, {
		name:  "all fail: every cause is reported, in the order of the addresses tried",
		addrs: []string{a4, b4},
		network: network{
			after:   map[string]time.Duration{a4: 400 * time.Millisecond, b4: 10 * time.Millisecond},
			refuses: map[string]error{a4: errRefused, b4: errRefused},
		},
		took: 400 * time.Millisecond, dials: []string{a4 + " at 0s", b4 + " at 250ms"},
		errs: []string{a4 + ": refused", b4 + ": refused"},
	}, {
		name:    "the caller's time runs out: nothing new is started",
		addrs:   []string{a4, b4, c4},
		network: network{},
		took:    300 * time.Millisecond, dials: []string{a4 + " at 0s", b4 + " at 250ms"},
		errs: []string{a4 + ": context deadline exceeded", b4 + ": context deadline exceeded"},
	}, {
		name:    "a loser that connects after all is closed before the race returns",
		addrs:   []string{a4, b4},
		network: network{after: map[string]time.Duration{a4: 270 * time.Millisecond, b4: 10 * time.Millisecond}, deaf: map[string]bool{a4: true}},
		winner:  b4, took: 270 * time.Millisecond, dials: []string{a4 + " at 0s", b4 + " at 250ms"},
	}}
	for i := range tests {
		test := &tests[i]
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &test.network
				n.began = time.Now()
				limit := 10 * time.Second
				if test.winner == "" && n.refuses == nil {
					limit = test.took
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				conn, err := dial.Dialer{}.WithConnectForTest(n.connect).Dial(ctx, endpoint(test.addrs...))
				if took := time.Since(n.began); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if diff := cmp.Diff(test.dials, n.dials); diff != "" {
					t.Errorf("dials (-want +got):\n%s", diff)
				}
				if n.active != 0 {
					t.Errorf("%d dials are still under way", n.active)
				}
				if test.winner == "" {
					if err == nil {
						t.Fatalf("connected to %s, want an error", conn.(*fakeConn).name)
					}
					if diff := cmp.Diff(test.errs, strings.Split(err.Error(), "\n")); diff != "" {
						t.Errorf("causes (-want +got):\n%s", diff)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := conn.(*fakeConn).name; got != test.winner {
					t.Errorf("winner %s, want %s", got, test.winner)
				}
				if n.open != 1 {
					t.Errorf("%d connections are open, want the winner's only", n.open)
				}
			})
		})
	}
}

func TestRaceEndsWithACancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{began: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err := dial.Dialer{}.WithConnectForTest(n.connect).Dial(ctx, endpoint(a4, b4))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want one that matches context.Canceled", err)
		}
		if took := time.Since(n.began); took != 100*time.Millisecond {
			t.Errorf("took %v, want 100ms", took)
		}
	})
}

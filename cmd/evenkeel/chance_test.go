// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
)

var errSilent = errors.New("no answer")

// What a server can give instead of a count.
const (
	noCount      = -1 // it takes connections
	noConnection = -2
)

// candidates are observed servers that fit.
func candidates(seen []balance.Observation) []candidate { return new(fitting).candidates(seen) }

// observed makes the observation of a server.
func observed(host string, priority, weight uint16, count int) balance.Observation {
	o := balance.Observation{Endpoint: discover.Endpoint{Host: host, Port: 35000, Priority: priority, Weight: weight}}
	if count >= 0 {
		o.Count.Connections = count
	} else {
		o.Err = errSilent
	}
	if count > noConnection {
		o.Count.Addr = netip.MustParseAddrPort("192.0.2.9:35000")
	}
	return o
}

// sized is the observation of a server that tells its capacity.
func sized(o balance.Observation, capacity int) balance.Observation {
	o.Count.Load = &balance.Load{Capacity: capacity}
	return o
}

// draining is the observation of a server that says so.
func draining(o balance.Observation) balance.Observation {
	o.Count.Load = &balance.Load{Draining: true}
	return o
}

// TestAServerThatDoesNotFitHasNoShare, and where none fits nobody has.
func TestAServerThatDoesNotFitHasNoShare(t *testing.T) {
	t.Parallel()
	misfit := errors.New("a method is missing")
	seen := candidates([]balance.Observation{observed("a", 0, 0, 0), observed("b", 0, 0, 7), observed("c", 0, 0, 7)})
	for _, balancer := range []string{connstring.LeastConnections, connstring.Random, connstring.RoundRobin} {
		seen[0].misfit, seen[1].misfit, seen[2].misfit = misfit, misfit, nil
		if diff := cmp.Diff([]float64{0, 0, 1}, chances(balancer, seen)); diff != "" {
			t.Errorf("%s: chances, -want +got:\n%s", balancer, diff)
		}
		seen[2].misfit = misfit
		if got := chances(balancer, seen); got != nil {
			t.Errorf("%s: chances %v where nobody fits, want none", balancer, got)
		}
	}
}

func TestChances(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		balancer string
		seen     []balance.Observation
		want     []float64
	}{
		{
			name: "the fewest connections", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, 3), observed("b", 0, 0, 2)}, want: []float64{0, 1},
		},
		{
			name: "a tie is drawn", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, 2), observed("b", 0, 0, 2), observed("c", 0, 0, 9)}, want: []float64{0.5, 0.5, 0},
		},
		{
			name: "weights are capacities", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 10, 3), observed("b", 0, 20, 6)}, want: []float64{0, 1},
		},
		{
			name: "weight 0 counts as a tenth of weight 1", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, 0), observed("b", 0, 1, 9)}, want: []float64{0.5, 0.5},
		},
		{
			name: "a backup is not picked however idle", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 1, 0, 0), observed("b", 0, 0, 50)}, want: []float64{0, 1},
		},
		{
			name: "a silent server is not picked", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, noCount), observed("b", 0, 0, 50)}, want: []float64{0, 1},
		},
		{
			name: "told capacities count in the place of weights", balancer: connstring.LeastConnections,
			seen: []balance.Observation{sized(observed("a", 0, 30, 0), 1), sized(observed("b", 0, 20, 0), 2), sized(observed("c", 0, 10, 0), 10)},
			want: []float64{0, 0, 1},
		},
		{
			name: "one that does not tell counts as 1", balancer: connstring.LeastConnections,
			seen: []balance.Observation{sized(observed("a", 0, 0, 1), 1), observed("b", 0, 0, 0), sized(observed("c", 0, 0, 9), 10)},
			want: []float64{0, .5, .5},
		},
		{
			name: "a server that drains is not picked", balancer: connstring.Random,
			seen: []balance.Observation{draining(observed("a", 0, 3, noCount)), observed("b", 0, 1, 5)}, want: []float64{0, 1},
		},
		{
			name: "all drain", balancer: connstring.LeastConnections,
			seen: []balance.Observation{draining(observed("a", 0, 0, noCount)), draining(observed("b", 0, 0, noCount))}, want: nil,
		},
		{
			name: "random goes by weight", balancer: connstring.Random,
			seen: []balance.Observation{observed("a", 0, 1, 9), observed("b", 0, 3, 0)}, want: []float64{0.25, 0.75},
		},
		{
			name: "turns begin anywhere", balancer: connstring.RoundRobin,
			seen: []balance.Observation{observed("a", 0, 1, 9), observed("b", 0, 3, 0)}, want: []float64{0.5, 0.5},
		},
		{
			name: "nobody gave a count", balancer: connstring.Random,
			seen: []balance.Observation{observed("a", 0, 1, noCount), observed("b", 0, 3, noConnection)}, want: nil,
		},
		{
			name: "a server without a count is still tried at random", balancer: connstring.Random,
			seen: []balance.Observation{observed("a", 0, 1, noCount), observed("b", 0, 3, 0)}, want: []float64{0.25, 0.75},
		},
		{
			name: "one without a connection is not", balancer: connstring.Random,
			seen: []balance.Observation{observed("a", 0, 1, 0), observed("b", 0, 3, noConnection)}, want: []float64{1, 0},
		},
		{
			name: "its turn is that of the next", balancer: connstring.RoundRobin,
			seen: []balance.Observation{
				observed("a", 0, 0, 0), observed("b", 0, 0, 0), observed("c", 0, 0, noConnection), observed("d", 0, 0, noConnection),
			},
			want: []float64{0.75, 0.25, 0, 0},
		},
		{
			name: "backups serve when all others are away", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, noConnection), observed("b", 1, 0, 7), observed("c", 1, 0, 3), observed("d", 2, 0, 0)},
			want: []float64{0, 0, 1, 0},
		},
		{
			name: "one without a count goes before a backup", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, noCount), observed("b", 1, 0, 7)}, want: []float64{1, 0},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, chances(tt.balancer, candidates(tt.seen))); diff != "" {
				t.Errorf("chances, -want +got:\n%s", diff)
			}
		})
	}
}

// fixedProber answers what was observed before.
type fixedProber map[string]balance.Observation

func (p fixedProber) Count(_ context.Context, e discover.Endpoint) (balance.Count, error) {
	return p[e.Addr()].Count, p[e.Addr()].Err
}

func (p fixedProber) Reserve(context.Context, discover.Endpoint, balance.ReserveRequest) (balance.Reservation, error) {
	return balance.Reservation{}, nil
}

// ends is where a client ends that leaves out what it gets no session from; false when nothing is left.
func ends(t *rapid.T, strategy balance.Strategy, seen []candidate) (discover.Endpoint, bool) {
	endpoints := make([]discover.Endpoint, len(seen))
	away := make(map[string]bool)
	for i, c := range seen {
		endpoints[i] = c.Endpoint
		away[c.Endpoint.Addr()] = !c.usable()
	}
	attempt := balance.NewAttempt(endpoints, nil, "")
	for {
		left := attempt.Candidates(time.Time{})
		if len(left) == 0 {
			return discover.Endpoint{}, false
		}
		selection, err := strategy.Select(context.Background(), left)
		if err != nil {
			t.Fatal(err)
		}
		if !away[selection.Endpoint.Addr()] {
			return selection.Endpoint, true
		}
		attempt.Failed(selection.Endpoint)
	}
}

// drawCandidate draws a server, which may tell its capacity, drain, or not fit.
func drawCandidate(t *rapid.T, host string) candidate {
	o := observed(host,
		uint16(rapid.IntRange(0, 1).Draw(t, "priority")), uint16(rapid.IntRange(0, 3).Draw(t, "weight")),
		rapid.IntRange(noConnection, 4).Draw(t, "count"))
	capacity := rapid.IntRange(0, 3).Draw(t, "capacity")
	draining := rapid.IntRange(0, 4).Draw(t, "draining") == 0
	if o.Count.Addr.IsValid() && (capacity > 0 || draining) {
		o.Count.Load = &balance.Load{Capacity: capacity, Draining: draining}
	}
	c := candidate{Observation: o}
	if o.Err == nil && rapid.IntRange(0, 4).Draw(t, "misfit") == 0 {
		c.misfit = errors.New("a method is missing")
	}
	return c
}

// TestChancesAgreeWithTheStrategies holds the answer of probe against what clients really do.
func TestChancesAgreeWithTheStrategies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var seen []candidate
		prober := make(fixedProber)
		for i := range rapid.IntRange(1, 5).Draw(t, "servers") {
			c := drawCandidate(t, string(rune('a'+i)))
			seen = append(seen, c)
			prober[c.Endpoint.Addr()] = c.Observation
		}
		least, err := balance.NewLeastConnections(balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter, Prober: prober})
		if err != nil {
			t.Fatal(err)
		}
		for balancer, strategy := range map[string]balance.Strategy{
			connstring.LeastConnections: least, connstring.Random: balance.NewRandom(), connstring.RoundRobin: balance.NewRoundRobin(),
		} {
			chance := chances(balancer, seen)
			if chance == nil {
				continue // nothing is promised
			}
			sum := 0.0
			for _, c := range chance {
				sum += c
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Fatalf("%s: chances %v add up to %v, want 1", balancer, chance, sum)
			}
			end, found := ends(t, strategy, seen)
			for i, o := range seen {
				if found && o.Endpoint.Addr() == end.Addr() && chance[i] == 0 {
					t.Fatalf("%s: the client ended on %s, to which probe gives no chance: %v", balancer, end, chance)
				}
			}
			if !found {
				t.Fatalf("%s: the client ended nowhere, probe says %v", balancer, chance)
			}
		}
	})
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, balancer, want string
		seen                 []balance.Observation
	}{
		{
			name: "one", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, 3), observed("b", 0, 0, 2)},
			want: "a client that connects now picks b:35000 (least-connections)",
		},
		{
			name: "a tie", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, 2), observed("b", 0, 0, 2)},
			want: "a client that connects now picks one of a:35000, b:35000: they are equally loaded (least-connections)",
		},
		{
			name: "nobody gave a count", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, noConnection), observed("b", 0, 0, noCount)},
			want: "no server that takes clients gave its count: a client that connects now tries them in turn",
		},
		{
			name: "nothing to add to the error about one", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, noConnection)},
		},
		{
			name: "one in front of the backup gave none", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, noCount), observed("b", 1, 0, 2)},
			want: "a client that connects now tries a:35000 first, which gave no count (least-connections)",
		},
		{
			name: "many", balancer: connstring.RoundRobin,
			seen: []balance.Observation{
				observed("a", 0, 0, 1), observed("b", 0, 0, 1), observed("c", 0, 0, 1),
				observed("d", 0, 0, 1), observed("e", 0, 0, 1), observed("f", 0, 0, 1),
			},
			want: "a client that connects now picks one of a:35000, b:35000, c:35000, d:35000 and 2 more: in turn, beginning anywhere (round-robin)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := verdict(tt.balancer, candidates(tt.seen), chances(tt.balancer, candidates(tt.seen))); got != tt.want {
				t.Errorf("verdict:\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

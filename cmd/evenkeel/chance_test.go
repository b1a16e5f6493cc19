// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
)

var errSilent = errors.New("no answer")

// observed makes the observation of a server; a negative count means that it did not answer.
func observed(host string, priority, weight uint16, count int) balance.Observation {
	o := balance.Observation{Endpoint: discover.Endpoint{Host: host, Port: 35000, Priority: priority, Weight: weight}}
	if count < 0 {
		o.Err = errSilent
	} else {
		o.Count.Connections = count
	}
	return o
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
			seen: []balance.Observation{observed("a", 0, 0, -1), observed("b", 0, 0, 50)}, want: []float64{0, 1},
		},
		{
			name: "none has answered", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 1, -1), observed("b", 0, 3, -1)}, want: []float64{0.25, 0.75},
		},
		{
			name: "random goes by weight", balancer: connstring.Random,
			seen: []balance.Observation{observed("a", 0, 1, 9), observed("b", 0, 3, 0)}, want: []float64{0.25, 0.75},
		},
		{
			name: "turns begin anywhere", balancer: connstring.RoundRobin,
			seen: []balance.Observation{observed("a", 0, 1, 9), observed("b", 0, 3, 0)}, want: []float64{0.5, 0.5},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, chances(tt.balancer, tt.seen)); diff != "" {
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

// TestChancesAgreeWithTheStrategy holds the answer of probe against what clients really do.
func TestChancesAgreeWithTheStrategy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var seen []balance.Observation
		prober := make(fixedProber)
		for i := range rapid.IntRange(1, 5).Draw(t, "servers") {
			o := observed(string(rune('a'+i)),
				uint16(rapid.IntRange(0, 1).Draw(t, "priority")), uint16(rapid.IntRange(0, 3).Draw(t, "weight")),
				rapid.IntRange(-1, 4).Draw(t, "count"))
			seen = append(seen, o)
			prober[o.Endpoint.Addr()] = o
		}
		chance := chances(connstring.LeastConnections, seen)
		var candidates []discover.Endpoint
		sum := 0.0
		for _, i := range lowestTier(seen) {
			candidates = append(candidates, seen[i].Endpoint)
		}
		for _, c := range chance {
			sum += c
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("chances %v add up to %v, want 1", chance, sum)
		}
		strategy, err := balance.NewLeastConnections(balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter, Prober: prober})
		if err != nil {
			t.Fatal(err)
		}
		selection, err := strategy.Select(context.Background(), candidates)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range seen {
			if o.Endpoint.Addr() == selection.Endpoint.Addr() && chance[i] == 0 {
				t.Fatalf("the strategy picked %s, to which probe gives no chance: %v", o.Endpoint, chance)
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
			name: "nobody answers", balancer: connstring.LeastConnections,
			seen: []balance.Observation{observed("a", 0, 0, -1), observed("b", 0, 0, -1)},
			want: "a client that connects now picks one of a:35000, b:35000: at random, since none has answered (least-connections)",
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
			if got := verdict(tt.balancer, tt.seen, chances(tt.balancer, tt.seen)); got != tt.want {
				t.Errorf("verdict:\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/arrival"
)

// crowdServers are servers that take 25 ms each way: of ours, or stock ones. Nobody connects, so reservations stay.
type crowdServers struct {
	ours bool

	mu       sync.Mutex
	began    time.Time
	counts   map[string]int
	rates    map[string]*arrival.Rate
	ids      map[string]string // of live reservations, to their host
	probes   int
	requests []balance.ReserveRequest
	released int
}

const oneWay = 25 * time.Millisecond

func newCrowdServers(ours bool) *crowdServers {
	return &crowdServers{
		ours: ours, began: time.Now(),
		counts: map[string]int{}, rates: map[string]*arrival.Rate{}, ids: map[string]string{},
	}
}

func (s *crowdServers) Count(ctx context.Context, e discover.Endpoint) (balance.Count, error) {
	time.Sleep(oneWay)
	s.mu.Lock()
	s.probes++
	count := balance.Count{Connections: s.counts[e.Host], RTT: 2 * oneWay}
	if s.ours {
		count.Load = &balance.Load{}
		if rate := s.rates[e.Host]; rate != nil {
			count.Load.ArrivalRate = rate.At(time.Since(s.began))
		}
	}
	s.mu.Unlock()
	time.Sleep(oneWay)
	return count, ctx.Err()
}

func (s *crowdServers) Reserve(ctx context.Context, e discover.Endpoint, request balance.ReserveRequest) (balance.Reservation, error) {
	time.Sleep(oneWay)
	defer time.Sleep(oneWay)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	if s.ours && request.Identify && request.Bound > 0 && s.counts[e.Host] >= request.Bound {
		return balance.Reservation{Refused: true, Count: s.counts[e.Host]}, ctx.Err()
	}
	s.counts[e.Host]++
	if s.rates[e.Host] == nil {
		s.rates[e.Host] = &arrival.Rate{}
	}
	s.rates[e.Host].Add(time.Since(s.began))
	made := balance.Reservation{Made: true}
	if s.ours && request.Identify {
		made.ID, made.Count = fmt.Sprintf("id%d", len(s.requests)), s.counts[e.Host]
		s.ids[made.ID] = e.Host
	}
	return made, ctx.Err()
}

func (s *crowdServers) Release(_ context.Context, e discover.Endpoint, id string) error {
	time.Sleep(oneWay)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids[id] == e.Host {
		delete(s.ids, id)
		s.counts[e.Host]--
		s.released++
	}
	return nil
}

// crowd lets clients select at once and returns the busiest server's clients over the mean.
func crowd(t *testing.T, s *crowdServers, clients, servers int, config balance.LeastConnectionsConfig) float64 {
	t.Helper()
	config.Prober = s
	candidates := make([]discover.Endpoint, servers)
	for i := range candidates {
		candidates[i] = node(fmt.Sprintf("n%d", i))
	}
	picks := make([]int, servers)
	var group sync.WaitGroup
	for i := range clients {
		strategy := newLeastConnections(t, config)
		balance.SeedForTest(strategy, uint64(i))
		group.Go(func() {
			selection, err := strategy.Select(t.Context(), candidates)
			if err != nil {
				t.Error(err)
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			picks[slices.IndexFunc(candidates, func(e discover.Endpoint) bool { return e.Host == selection.Endpoint.Host })]++
			if s.ours && !config.Classic && s.ids[selection.Reservation.ID] != selection.Endpoint.Host {
				t.Errorf("the reservation %+v is not that of %s", selection.Reservation, selection.Endpoint.Host)
			}
		})
	}
	group.Wait()
	time.Sleep(time.Second) // releases arrive
	return float64(slices.Max(picks)*servers) / float64(clients)
}

// The strategy with its loop and its clock comes out as the simulator says.
func TestLeastConnectionsInACrowd(t *testing.T) {
	t.Parallel()
	const clients, servers = 500, 10
	for name, tt := range map[string]struct {
		ours, classic bool
		least, most   float64
		probes        float64 // for each client, at most
	}{
		"classic":       {ours: true, classic: true, least: 2, most: 4, probes: 10},
		"stock servers": {most: 1.2, probes: 18.5},
		"our servers":   {ours: true, most: 1.06, probes: 17},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newCrowdServers(tt.ours)
				got := crowd(t, s, clients, servers, balance.LeastConnectionsConfig{Classic: tt.classic})
				if got < tt.least || got > tt.most {
					t.Errorf("max/mean %.3f, want %v to %v", got, tt.least, tt.most)
				}
				if each := float64(s.probes) / clients; each > tt.probes {
					t.Errorf("%.1f probes for each client, want %v at most", each, tt.probes)
				}
				left := 0
				for _, count := range s.counts {
					left += count
				}
				if left != clients {
					t.Errorf("%d reservations for %d clients", left, clients)
				}
				if tt.ours && !tt.classic && s.released == 0 {
					t.Error("nobody moved a reservation")
				}
				for _, request := range s.requests {
					if tt.classic && request != (balance.ReserveRequest{}) {
						t.Fatalf("the classic form asked for %+v", request)
					}
				}
			})
		})
	}
}

// The second look at stock servers takes a little time and no second jitter.
func TestLeastConnectionsLooksTwiceAtStockServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := &fakeProber{servers: map[string]server{"b": {count: 1}}}
		strategy := newLeastConnections(t, balance.LeastConnectionsConfig{MaxJitter: time.Nanosecond, Prober: prober})
		longest := time.Duration(0)
		for range 200 {
			began := time.Now()
			if got := pick(t, strategy, nodes("ab")).Endpoint.Host; got != "a" {
				t.Fatalf("picked %s, want a", got)
			}
			longest = max(longest, time.Since(began))
		}
		if longest < 60*time.Millisecond || longest > 70*time.Millisecond {
			t.Errorf("took up to %v, want nearly 70ms", longest)
		}
		probed, reserved := prober.calls()
		if len(probed) != 200*4 || len(reserved) != 200 {
			t.Errorf("%d probes and %d reservations, want two rounds of two and one each time", len(probed), len(reserved))
		}
	})
}

// A context that ends while a pick may still be corrected leaves the pick.
func TestLeastConnectionsKeepsItsPickWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newCrowdServers(true)
		for _, host := range []string{"a", "b"} {
			s.rates[host] = &arrival.Rate{}
			for range 1000 {
				s.rates[host].Add(0)
			}
		}
		strategy := newLeastConnections(t, balance.LeastConnectionsConfig{MaxJitter: time.Nanosecond, Prober: s})
		ctx, cancel := context.WithTimeout(t.Context(), 4*oneWay+time.Millisecond)
		defer cancel()
		selection, err := strategy.Select(ctx, nodes("ab"))
		if err != nil || selection.Reservation.ID == "" {
			t.Errorf("got %+v, %v, want the pick and its reservation", selection, err)
		}
	})
}

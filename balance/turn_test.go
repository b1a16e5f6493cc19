// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// taking answers 7 after a while.
func taking(span time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(span)
		_, _ = io.WriteString(w, "7")
	}
}

// meetAllowing starts a server in memory that allows so many requests on one connection at a time.
func meetAllowing(t *testing.T, p protocol, streams int, handler http.HandlerFunc) *memory {
	t.Helper()
	return meetWith(t, p, handler, func(s *testServer) { s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams} })
}

// acquaint lets a prober learn how many requests its server takes on a connection.
func acquaint(t *testing.T, m *memory, endpoints ...discover.Endpoint) {
	t.Helper()
	for _, endpoint := range endpoints {
		if got := <-countLater(t.Context(), m.prober, endpoint); got.err != nil {
			t.Fatal(got.err)
		}
	}
}

// All clients of a process that share a prober get their answers, though none is there within their two seconds.
func TestWaitingForATurnIsNotTheServersSilence(t *testing.T) {
	t.Parallel()
	for _, p := range []protocol{http1, http2} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const clients = 8 * balance.MaxConnsForTest // which takes 6.4 s: counts and reservations
				m := meetAllowing(t, p, 1, taking(400*time.Millisecond))
				other := somewhere
				other.Port++
				acquaint(t, m, somewhere, other)
				var all sync.WaitGroup
				for range clients {
					all.Go(func() {
						strategy := newLeastConnections(t, balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter, Classic: true, Prober: m.prober})
						selection, err := strategy.Select(t.Context(), []discover.Endpoint{somewhere, other})
						if err != nil || !selection.Reservation.Made {
							t.Errorf("no reservation: %v, %v", err, selection.ReserveErr)
						}
						for _, o := range selection.Observations {
							if o.Err != nil || o.Silent || o.Count.RTT != 400*time.Millisecond {
								t.Errorf("%s: got %+v, want a count that took 400ms", o.Endpoint, o)
							}
						}
					})
				}
				all.Wait()
				if most := m.mostOpen(); most != 2*balance.MaxConnsForTest {
					t.Errorf("%d connections to two servers at a time, want %d", most, 2*balance.MaxConnsForTest)
				}
			})
		})
	}
}

// A server of HTTP/2 gets no more connections than its requests need.
func TestACrowdSharesConnectionsAsFarAsTheServerAllows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := meetAllowing(t, h2c, 100, taking(time.Second))
		began := time.Now()
		countTogether(t, m.prober, somewhere, 950)
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want 1s: all at once", took)
		}
		if most := m.mostOpen(); most != 10 {
			t.Errorf("%d connections at a time, want 10", most)
		}
		if _, conns := balance.PooledForTest(m.prober); conns != balance.MaxIdleForTest {
			t.Errorf("%d connections are kept, want %d", conns, balance.MaxIdleForTest)
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	for _, p := range []protocol{http1, http2, h2c} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := meetAllowing(t, p, 1, taking(10*time.Millisecond))
				acquaint(t, m, somewhere)
				began := time.Now()
				countTogether(t, m.prober, somewhere, 2*balance.MaxConnsForTest)
				if took := time.Since(began); took != 20*time.Millisecond {
					t.Errorf("took %v, want two turns of 10ms", took)
				}
				if most := m.mostOpen(); most != balance.MaxConnsForTest {
					t.Errorf("%d connections at a time, want %d", most, balance.MaxConnsForTest)
				}
				if _, conns := balance.PooledForTest(m.prober); conns != balance.MaxIdleForTest {
					t.Errorf("%d connections are kept, want %d", conns, balance.MaxIdleForTest)
				}
			})
		})
	}
}

func TestAWaitForATurnEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		limit time.Duration
		after time.Duration
		want  string
	}{
		{"with its context", 2 * time.Second, 2 * time.Second, "no turn: context deadline exceeded"},
		{"after a time of its own", time.Hour, balance.MaxTurnForTest, "no turn: too many requests"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := meetAllowing(t, http2, 1, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
				ahead, stop := context.WithCancel(t.Context())
				defer stop()
				for range balance.MaxConnsForTest {
					countLater(ahead, m.prober, somewhere)
					synctest.Wait()
				}
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				got := <-countLater(ctx, m.prober, somewhere)
				if got.err == nil || !strings.Contains(got.err.Error(), test.want) || got.after != test.after {
					t.Errorf("got %v after %v, want %q after %v", got.err, got.after, test.want, test.after)
				}
			})
		})
	}
}

// The turn of who has left is the next one's.
func TestATurnThatNobodyTakesIsPassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := meetAllowing(t, http1, 1, taking(time.Second))
		for range balance.MaxConnsForTest {
			countLater(t.Context(), m.prober, somewhere)
		}
		synctest.Wait()
		impatient, leave := context.WithCancel(t.Context())
		first := countLater(impatient, m.prober, somewhere)
		synctest.Wait()
		second := countLater(t.Context(), m.prober, somewhere)
		synctest.Wait()
		leave()
		if got := <-first; !errors.Is(got.err, context.Canceled) {
			t.Errorf("who left got %v, want context.Canceled", got.err)
		}
		if got := <-second; got.err != nil || got.after != 2*time.Second {
			t.Errorf("the next one got %v after %v, want a count after 2s", got.err, got.after)
		}
	})
}

// A dead connection takes no place from a fresh one.
func TestWhoWaitsGetsAFreshConnectionForADeadOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := meetAllowing(t, h2c, 1, taking(10*time.Millisecond))
		acquaint(t, m, somewhere)
		countTogether(t, m.prober, somewhere, balance.MaxConnsForTest)
		for _, link := range m.links {
			link.dead.Store(true)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for range balance.MaxConnsForTest {
			countLater(ctx, m.prober, somewhere)
		}
		synctest.Wait()
		if got := <-countLater(t.Context(), m.prober, somewhere); got.err != nil || got.after > 2*time.Second+10*time.Millisecond {
			t.Errorf("got %v after %v, want a count once the others have given up", got.err, got.after)
		}
	})
}

// herd lets clients that share a prober select among servers that hold their answers for a second, and returns the busiest
// server's clients over the mean.
func herd(t *testing.T, classic bool) float64 {
	t.Helper()
	const clients, servers = 1000, 10 // of which 200 decide at once
	var mu sync.Mutex
	counts := map[string]int{}
	m := meet(t, h2c, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(500 * time.Millisecond)
		mu.Lock()
		if r.Method == http.MethodPost {
			counts[r.Host]++
		}
		count := counts[r.Host]
		mu.Unlock()
		time.Sleep(500 * time.Millisecond)
		if r.Method == http.MethodGet {
			_, _ = fmt.Fprint(w, count)
		}
	})
	candidates := make([]discover.Endpoint, servers)
	for i := range candidates {
		candidates[i] = somewhere
		candidates[i].Port += uint16(i)
	}
	var all sync.WaitGroup
	for seed := range uint64(clients) {
		all.Go(func() {
			strategy := newLeastConnections(t, balance.LeastConnectionsConfig{MaxJitter: 5 * time.Second, Classic: classic, Prober: m.prober})
			balance.SeedForTest(strategy, seed)
			selection, err := strategy.Select(t.Context(), candidates)
			if err != nil || !selection.Reservation.Made {
				t.Errorf("no reservation: %v, %v", err, selection.ReserveErr)
			}
			for _, o := range selection.Observations {
				if o.Err != nil || o.Silent {
					t.Errorf("no count of %s: %v", o.Endpoint, o.Err)
				}
			}
		})
	}
	all.Wait()
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	return float64(most*servers) / clients
}

// Old counts are all that makes the classic form collapse, and what it does not do to the default: no request fails.
func TestACrowdThatSharesAProberMissesNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		classic     bool
		least, most float64
	}{
		"classic": {true, 1.8, 4},
		"default": {false, 1, 1.2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if got := herd(t, tt.classic); got < tt.least || got > tt.most {
					t.Errorf("max/mean %v, want %v to %v", got, tt.least, tt.most)
				} else {
					t.Logf("max/mean %v", got)
				}
			})
		})
	}
}

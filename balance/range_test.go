// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// wildProber is a prober of a program's own that says anything.
type wildProber struct {
	t *testing.T

	mu   sync.Mutex
	rand *rand.Rand
}

// wild draws one of some numbers, of which some cannot be meant.
func wild[T any](p *wildProber, some ...T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return some[p.rand.IntN(len(some))]
}

func (p *wildProber) Count(context.Context, discover.Endpoint) (balance.Count, error) {
	count := balance.Count{
		Connections: wild(p, 0, 1, 5, -1, math.MaxInt, math.MinInt),
		RTT:         wild(p, time.Millisecond, 0, -1, math.MaxInt64, math.MinInt64, math.MaxInt64/2),
	}
	if wild(p, true, false) {
		count.Load = &balance.Load{
			ArrivalRate: wild(p, 0, 1, 1e308, math.Inf(1), math.Inf(-1), math.NaN(), -3),
			Capacity:    wild(p, 0, 1, -1, math.MaxInt, math.MinInt),
			Draining:    wild(p, false, false, true),
		}
	}
	return count, nil
}

func (p *wildProber) Reserve(_ context.Context, _ discover.Endpoint, request balance.ReserveRequest) (balance.Reservation, error) {
	if request.Bound < 0 || request.Bound > math.MaxInt32 {
		p.t.Errorf("asked for a bound of %d, which the protocol does not have", request.Bound)
	}
	return balance.Reservation{
		Made: wild(p, true, false), Refused: wild(p, true, false),
		ID: wild(p, "", "x", "a\nb"), Count: wild(p, 0, 1, -5, math.MaxInt, math.MinInt),
	}, nil
}

func (p *wildProber) Release(_ context.Context, _ discover.Endpoint, id string) error {
	if id != "x" {
		p.t.Errorf("released %q, which cannot be an id", id)
	}
	return nil
}

func TestWhatAProberSaysIsBroughtIntoRange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(2000) {
			prober := &wildProber{t: t, rand: rand.New(rand.NewPCG(seed, 0))}
			candidates := make([]discover.Endpoint, wild(prober, 2, 3, 9))
			for i := range candidates {
				candidates[i] = node(fmt.Sprintf("n%d", i))
				candidates[i].Weight = wild[uint16](prober, 0, 1, math.MaxUint16)
			}
			strategy := newLeastConnections(t, balance.LeastConnectionsConfig{Prober: prober})
			balance.SeedForTest(strategy, seed)
			selection, err := strategy.Select(t.Context(), candidates)
			synctest.Wait() // for what is released
			if err != nil || selection.Endpoint.Host == "" {
				t.Fatalf("seed %d: picked %v, %v", seed, selection.Endpoint, err)
			}
			checkRange(t, &selection)
		}
	})
}

func checkRange(t *testing.T, selection *balance.Selection) {
	t.Helper()
	if id := selection.Reservation.ID; id != "" && id != "x" || selection.Reservation.Count < 0 {
		t.Errorf("a reservation of %+v", selection.Reservation)
	}
	for _, o := range selection.Observations {
		if o.Err == nil && (o.Count.Connections < 0 || o.Count.RTT < 0 || o.Count.RTT > time.Minute) {
			t.Errorf("a count of %+v", o.Count)
		}
		if l := o.Count.Load; l != nil && (l.Capacity < 0 || l.Capacity > 1_000_000 || l.ArrivalRate < 0 || l.ArrivalRate > 1e6) {
			t.Errorf("a load of %+v", *l)
		}
	}
}

// One server that lies about its count must not make the client ask others for what they have to refuse.
func TestBoundsAreThoseOfTheProtocol(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bounds := make(chan string, 1)
		m := meet(t, h2c, func(w http.ResponseWriter, r *http.Request) {
			bounds <- r.URL.Query().Get("bound")
			_, _ = io.WriteString(w, `{"granted":true,"id":"x","count":1}`)
		})
		for asked, want := range map[int]string{7: "7", math.MaxInt32: "2147483647", 1 << 40: "2147483647"} {
			if _, err := m.prober.Reserve(t.Context(), somewhere, balance.ReserveRequest{Identify: true, Bound: asked}); err != nil {
				t.Fatal(err)
			}
			if got := <-bounds; got != want {
				t.Errorf("for %d: got a bound of %s, want %s", asked, got, want)
			}
		}
	})
}

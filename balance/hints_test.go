// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// countingProber answers every probe with the same count and counts the reservations.
type countingProber struct{ reserved atomic.Int64 }

func (p *countingProber) Count(context.Context, discover.Endpoint) (balance.Count, error) {
	return balance.Count{Connections: 1}, nil
}

func (p *countingProber) Reserve(
	context.Context, discover.Endpoint, balance.ReserveRequest,
) (balance.Reservation, error) {
	p.reserved.Add(1)
	return balance.Reservation{Made: true}, nil
}

func TestLeastConnectionsHeedsTheHintsOfItsContext(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		hint         func(context.Context) context.Context
		mayWait      bool
		reservations int64
	}{
		{"none", func(ctx context.Context) context.Context { return ctx }, true, 20},
		{"without jitter", balance.WithoutJitter, false, 20},
		{"without reservation", balance.WithoutReservation, true, 0},
		{"without either", func(ctx context.Context) context.Context {
			return balance.WithoutJitter(balance.WithoutReservation(ctx))
		}, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				prober := &countingProber{}
				s, err := balance.NewLeastConnections(balance.LeastConnectionsConfig{Prober: prober})
				if err != nil {
					t.Fatal(err)
				}
				candidates := []discover.Endpoint{{Host: "a", Port: 1}, {Host: "b", Port: 1}}
				began := time.Now()
				for range 20 {
					if _, err := s.Select(tt.hint(t.Context()), candidates); err != nil {
						t.Fatal(err)
					}
				}
				if waited := time.Since(began) > 0; waited != tt.mayWait {
					t.Errorf("waited %v in 20 selections, want a wait: %v", time.Since(began), tt.mayWait)
				}
				if got := prober.reserved.Load(); got != tt.reservations {
					t.Errorf("%d reservations, want %d", got, tt.reservations)
				}
			})
		})
	}
}

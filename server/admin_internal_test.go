// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

func TestShareOfAllClients(t *testing.T) {
	t.Parallel()
	other := func(clients, capacity int) answer {
		return answer{items: make([]*clientspb.ConnectedClient, clients), capacity: capacity}
	}
	for name, tt := range map[string]struct {
		own, capacity int
		others        []answer
		want          int
	}{
		"alone":                       {own: 7, want: 7},
		"even":                        {own: 100, others: []answer{other(100, 0), other(100, 0), other(0, 0), other(0, 0)}, want: 60},
		"rounded up":                  {own: 5, others: []answer{other(5, 0), other(0, 0)}, want: 4},
		"capacities":                  {own: 6, capacity: 2, others: []answer{other(3, 1)}, want: 6},
		"of a small one":              {own: 6, capacity: 1, others: []answer{other(3, 2)}, want: 3},
		"one says none":               {own: 6, capacity: 2, others: []answer{other(4, 0)}, want: 5},
		"only the others say theirs":  {own: 6, others: []answer{other(4, 3)}, want: 5},
		"nobody is here, or anywhere": {others: []answer{other(0, 0)}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := share(tt.own, tt.capacity, tt.others); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestCapacityOfAPeerIsRangeChecked(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{
		"1": 1, "1000000": 1000000, "0": 0, "-1": 0, "1000001": 0, "two": 0, "99999999999999999999": 0, "": 0, "1.5": 0,
	} {
		if got := capacityIn(metadata.Pairs("evenkeel-capacity", value)); got != want {
			t.Errorf("%q: got %d, want %d", value, got, want)
		}
	}
	if got := capacityIn(metadata.Pairs("evenkeel-capacity", "1", "evenkeel-capacity", "2")); got != 0 {
		t.Errorf("twice: got %d, want 0", got)
	}
}

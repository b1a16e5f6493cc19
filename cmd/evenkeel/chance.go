// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
)

// chances returns how likely a client that connects now picks each of the observed endpoints, from 0 to 1, by the load
// balancer of the connection string. They add up to 1.
//
// Only the lowest priority number counts: the others are backups.
func chances(balancer string, seen []balance.Observation) []float64 {
	result := make([]float64, len(seen))
	tier := lowestTier(seen)
	eligible, byWeight := tier, true
	switch balancer {
	case connstring.RoundRobin:
		byWeight = false // it starts anywhere
	case connstring.LeastConnections:
		if least := leastLoaded(seen, tier); len(least) > 0 {
			eligible, byWeight = least, false // ties are drawn
		}
	}
	total := 0.0
	for _, i := range eligible {
		result[i] = 1
		if byWeight {
			result[i] = float64(capacity(seen[i].Endpoint))
		}
		total += result[i]
	}
	for i := range result {
		result[i] /= total
	}
	return result
}

// lowestTier returns the indices of the endpoints with the lowest priority number.
func lowestTier(seen []balance.Observation) []int {
	var tier []int
	for i := range seen {
		switch {
		case len(tier) == 0 || seen[i].Endpoint.Priority < seen[tier[0]].Endpoint.Priority:
			tier = []int{i}
		case seen[i].Endpoint.Priority == seen[tier[0]].Endpoint.Priority:
			tier = append(tier, i)
		}
	}
	return tier
}

// leastLoaded returns those of the tier that have answered and have the lowest (connections+1)/weight.
func leastLoaded(seen []balance.Observation, tier []int) []int {
	var least []int
	for _, i := range tier {
		if seen[i].Err != nil {
			continue
		}
		order := -1
		if len(least) > 0 {
			order = compareLoad(seen[i], seen[least[0]])
		}
		switch {
		case order < 0:
			least = []int{i}
		case order == 0:
			least = append(least, i)
		}
	}
	return least
}

// compareLoad compares (connections+1)/weight of two endpoints without rounding.
func compareLoad(a, b balance.Observation) int {
	high1, low1 := bits.Mul64(uint64(a.Count.Connections)+1, capacity(b.Endpoint))
	high2, low2 := bits.Mul64(uint64(b.Count.Connections)+1, capacity(a.Endpoint))
	return slices.Compare([]uint64{high1, low1}, []uint64{high2, low2})
}

// capacity is a weight in tenths: weight 0 beside positive ones counts as a tenth of weight 1.
func capacity(e discover.Endpoint) uint64 { return max(1, 10*uint64(e.Weight)) }

// verdict says in a sentence what the chances mean.
func verdict(balancer string, seen []balance.Observation, chance []float64) string {
	var likely []string
	answered := false
	for i, c := range chance {
		answered = answered || seen[i].Err == nil
		if c > 0 {
			likely = append(likely, seen[i].Endpoint.Addr())
		}
	}
	if len(likely) == 1 {
		return fmt.Sprintf("a client that connects now picks %s (%s)", likely[0], balancer)
	}
	how := map[string]string{
		connstring.RoundRobin:       "in turn, beginning anywhere",
		connstring.Random:           "at random, by weight",
		connstring.LeastConnections: "they are equally loaded",
	}[balancer]
	if balancer == connstring.LeastConnections && !answered {
		how = "at random, since none has answered"
	}
	return fmt.Sprintf("a client that connects now picks one of %s: %s (%s)", someOf(likely), how, balancer)
}

// someOf lists names, not too many.
func someOf(names []string) string {
	const shown = 4
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

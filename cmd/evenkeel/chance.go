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

// chances returns how likely a client that connects now ends on each of the observed endpoints, from 0 to 1, by the load
// balancer of the connection string. They add up to 1. It returns nil when no endpoint has given its count: then nothing
// speaks for a client getting anywhere.
//
// A client leaves out what it could not connect to, and picks again. So do the chances: an endpoint to which no
// connection could be made has none, and a higher priority number counts when that is so for all of the lower ones.
func chances(balancer string, seen []balance.Observation) []float64 {
	if !slices.ContainsFunc(seen, func(o balance.Observation) bool { return o.Err == nil }) {
		return nil
	}
	result := make([]float64, len(seen))
	tier := lowestTier(seen)
	switch balancer {
	case connstring.RoundRobin:
		inTurn(result, seen, tier)
	case connstring.LeastConnections:
		if least := leastLoaded(seen, tier); len(least) > 0 {
			share(result, least, func(int) float64 { return 1 }) // ties are drawn
			return result
		}
		fallthrough // a bad answer alone leaves nobody out
	default:
		byWeight := func(i int) float64 { return float64(capacity(seen[i].Endpoint)) }
		share(result, reachable(seen, tier), byWeight)
	}
	return result
}

// share gives the endpoints at the indices their parts of 1.
func share(result []float64, indices []int, part func(i int) float64) {
	total := 0.0
	for _, i := range indices {
		total += part(i)
	}
	for _, i := range indices {
		result[i] = part(i) / total
	}
}

// inTurn gives each reachable endpoint of the tier its own turn and those of the unreachable ones in front of it: a
// client begins anywhere and goes on to the next.
func inTurn(result []float64, seen []balance.Observation, tier []int) {
	for at := range tier {
		for unreachable(seen[tier[at]]) {
			at = (at + 1) % len(tier)
		}
		result[tier[at]] += 1 / float64(len(tier))
	}
}

// lowestTier returns the indices of the endpoints with the lowest priority number of which one can be reached.
func lowestTier(seen []balance.Observation) []int {
	lowest := -1
	for _, o := range seen {
		if p := int(o.Endpoint.Priority); !unreachable(o) && (lowest < 0 || p < lowest) {
			lowest = p
		}
	}
	var tier []int
	for i, o := range seen {
		if int(o.Endpoint.Priority) == lowest {
			tier = append(tier, i)
		}
	}
	return tier
}

// reachable returns those of the tier to which a connection could be made.
func reachable(seen []balance.Observation, tier []int) []int {
	return slices.DeleteFunc(slices.Clone(tier), func(i int) bool { return unreachable(seen[i]) })
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

// verdict says in a sentence what the chances mean; empty where nothing can be said that the error does not say.
func verdict(balancer string, seen []balance.Observation, chance []float64) string {
	var likely []string
	counted := false
	for i, c := range chance {
		if c > 0 {
			likely = append(likely, seen[i].Endpoint.Addr())
			counted = counted || seen[i].Err == nil
		}
	}
	switch {
	case len(likely) == 0 && len(seen) == 1:
		return ""
	case len(likely) == 0:
		return "no server gave its count: a client that connects now tries them in turn"
	case !counted:
		return fmt.Sprintf("a client that connects now tries %s first, which gave no count (%s)", oneOf(likely), balancer)
	case len(likely) == 1:
		return fmt.Sprintf("a client that connects now picks %s (%s)", oneOf(likely), balancer)
	}
	how := map[string]string{
		connstring.RoundRobin:       "in turn, beginning anywhere",
		connstring.Random:           "at random, by weight",
		connstring.LeastConnections: "they are equally loaded",
	}[balancer]
	return fmt.Sprintf("a client that connects now picks %s: %s (%s)", oneOf(likely), how, balancer)
}

// oneOf names one, or says that it is one of several; it lists not too many.
func oneOf(names []string) string {
	const shown = 4
	switch {
	case len(names) == 1:
		return names[0]
	case len(names) <= shown:
		return "one of " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("one of %s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

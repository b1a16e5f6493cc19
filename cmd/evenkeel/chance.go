// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/internal/decide"
)

// candidate is what a round of probes found out about a server.
type candidate struct {
	balance.Observation
	misfit error // why the server does not serve what a session needs; nil where nothing of the kind is known
}

// capacity is how many clients the server takes in proportion to others; 0 where it did not say.
func (c candidate) capacity() int {
	if c.Count.Load == nil {
		return 0
	}
	return c.Count.Load.Capacity
}

// draining says that the server said that it wants no more clients.
func (c candidate) draining() bool { return c.Count.Load != nil && c.Count.Load.Draining }

// open says that the server did not say itself that a client gets no session there.
func (c candidate) open() bool { return !c.draining() && c.misfit == nil }

// usable says that nothing is known that keeps a client from getting a session there. A client finds out what does, leaves
// the server out, and picks again.
func (c candidate) usable() bool { return !unreachable(c.Observation) && c.open() }

// chances returns how likely a client that connects now ends on each of the candidates, from 0 to 1, by the load balancer of
// the connection string. They add up to 1. It returns nil when no usable one has given its count: then nothing speaks for a
// client getting anywhere.
//
// A candidate that is not usable has no chance, and a higher priority number counts when that is so for all of the lower
// ones.
func chances(balancer string, seen []candidate) []float64 {
	if !slices.ContainsFunc(seen, func(c candidate) bool { return c.usable() && c.Err == nil }) {
		return nil
	}
	tier := lowestTier(seen)
	usable := slices.DeleteFunc(slices.Clone(tier), func(i int) bool { return !seen[i].usable() })
	result := make([]float64, len(seen))
	switch balancer {
	case connstring.RoundRobin:
		inTurn(result, seen, tier)
	case connstring.Random:
		weights := make([]uint16, len(usable))
		for n, i := range usable {
			weights[n] = seen[i].Endpoint.Weight
		}
		scatter(result, usable, decide.DrawChances(weights))
	default:
		observations := make([]balance.Observation, len(usable))
		for n, i := range usable {
			observations[n] = seen[i].Observation
		}
		scatter(result, usable, balance.Chances(observations))
	}
	return result
}

// scatter puts chances where their candidates are.
func scatter(result []float64, indices []int, chances []float64) {
	for n, i := range indices {
		result[i] = chances[n]
	}
}

// inTurn gives each usable candidate of the tier its own turn and those of the others in front of it: a client begins
// anywhere and goes on to the next.
func inTurn(result []float64, seen []candidate, tier []int) {
	for at := range tier {
		for !seen[tier[at]].usable() {
			at = (at + 1) % len(tier)
		}
		result[tier[at]] += 1 / float64(len(tier))
	}
}

// lowestTier returns the indices of the candidates with the lowest priority number of which one is usable.
func lowestTier(seen []candidate) []int {
	lowest := -1
	for _, c := range seen {
		if p := int(c.Endpoint.Priority); c.usable() && (lowest < 0 || p < lowest) {
			lowest = p
		}
	}
	var tier []int
	for i, c := range seen {
		if int(c.Endpoint.Priority) == lowest {
			tier = append(tier, i)
		}
	}
	return tier
}

// verdict says in a sentence what the chances mean; empty where nothing can be said that the error does not say.
func verdict(balancer string, seen []candidate, chance []float64) string {
	var likely []string
	counted := false
	for i, c := range chance {
		if c > 0 {
			likely = append(likely, seen[i].Endpoint.Addr())
			counted = counted || seen[i].Err == nil
		}
	}
	switch {
	case len(likely) == 0 && (len(seen) == 1 || !slices.ContainsFunc(seen, candidate.open)):
		return ""
	case len(likely) == 0:
		return "no server that takes clients gave its count: a client that connects now tries them in turn"
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

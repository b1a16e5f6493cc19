// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && unix

package test_test

import (
	"slices"
	"testing"
	"time"

	keel "github.com/evenkeel-go/evenkeel"
)

// crowding is by how much this process is late when clients that choose all at once choose by counts of the past: a crowd
// then goes where the fewest were. That is no fault of theirs, and not judged.
const crowding = 100 * time.Millisecond

// even is how many clients the fullest server may have where it need have no more than so many: ceil(1.2 × least).
func even(least int) int { return (12*least + 9) / 10 }

// checkSpread compares the fullest of the servers that are well with what it may have.
//
// A client keeps away from a server that has failed it, for 30 s the first time and up to 5 min later, whoever is the
// fullest meanwhile. So what counts is the least that the fullest server can have when each of those who chose goes to one
// of the servers that it considered: that is the mean unless many hold something against one server. stayed are those that
// had nothing to choose, by server; with nil these are all that did not choose, and may be anywhere.
func (c *chaos) checkSpread(what string, stayed map[string][]*chaosClient, chose map[*chaosClient]bool) {
	c.t.Helper()
	var servers []string
	staying := make(map[string]int)
	for _, s := range c.cluster.live() {
		servers = append(servers, s.addr())
		staying[s.addr()] = len(stayed[s.addr()])
	}
	var choices [][]string
	for _, client := range c.clients {
		if chose[client] {
			choices = append(choices, client.considered())
		} else if stayed == nil {
			choices = append(choices, servers)
		}
	}
	least := leastFull(servers, staying, choices)
	c.figures.looks++
	if least*len(servers) > len(c.clients) {
		c.figures.held = append(c.figures.held, 100*least*len(servers)/len(c.clients))
	}
	got, want := len(c.fullestServer()), even(least)
	if got <= want {
		return
	}
	late := c.lag.worst()
	tell := c.t.Errorf
	if stayed != nil && late > crowding {
		c.figures.crowded++
		tell = c.t.Logf
	}
	tell("%s: the fullest of %d servers has %d of %d clients, want %d at most: %v; before, others had %v; this process was late by %v",
		what, len(servers), got, len(c.clients), want, c.sessions(), staying, ms(late))
}

// considered are the servers that the client has last chosen from.
func (c *chaosClient) considered() []string {
	events := c.conn.Status().Events
	for _, e := range slices.Backward(events) {
		if e.Kind != keel.EventSelected {
			continue
		}
		if len(e.Observations) == 0 { // where there is one, it is not asked
			return []string{e.Endpoint.Addr()}
		}
		var servers []string
		for _, o := range e.Observations {
			servers = append(servers, o.Endpoint.Addr())
		}
		return servers
	}
	return nil
}

// leastFull is the least that the fullest server can have when so many clients stay on each and each of the others goes to
// one of its choices. By Hall's theorem it is enough to look at each set of servers, and at those who have no choice beyond
// it.
func leastFull(servers []string, staying map[string]int, choices [][]string) int {
	least := 0
	for set := 1; set < 1<<len(servers); set++ {
		within := make(map[string]bool)
		held := 0
		for i, server := range servers {
			if set>>i&1 == 1 {
				within[server] = true
				held += staying[server]
			}
		}
		for _, choice := range choices {
			bound := false // to the set: it has a choice that is there at all, and none beyond
			for _, server := range choice {
				if !slices.Contains(servers, server) {
					continue
				}
				if bound = within[server]; !bound {
					break
				}
			}
			if bound {
				held++
			}
		}
		least = max(least, (held+len(within)-1)/len(within))
	}
	return least
}

func TestHoldChaosKnowsTheMostEvenSpread(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c"}
	times := func(n int, choice ...string) [][]string { return slices.Repeat([][]string{choice}, n) }
	tests := []struct {
		name    string
		staying map[string]int
		choices [][]string
		want    int
	}{
		{name: "nobody", want: 0},
		{name: "all may go anywhere", choices: times(10, all...), want: 4},
		{name: "a server has more than its share already", staying: map[string]int{"a": 9}, choices: times(3, all...), want: 9},
		{name: "an empty server is filled", staying: map[string]int{"a": 5, "b": 5}, choices: times(5, all...), want: 5},
		{name: "some keep away from one", staying: map[string]int{"a": 4, "b": 4}, choices: times(4, "a", "b"), want: 6},
		{name: "some have no choice", choices: slices.Concat(times(6, "a"), times(3, all...)), want: 6},
		{name: "a choice that has gone is none", choices: times(4, "a", "gone"), want: 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := leastFull(all, tt.staying, tt.choices); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
	for least, want := range map[int]int{40: 48, 41: 50, 50: 60} {
		if got := even(least); got != want {
			t.Errorf("1.2 times %d: got %d, want %d", least, got, want)
		}
	}
}

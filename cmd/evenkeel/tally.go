// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evenkeel-go/evenkeel"
)

// tally is what the events of a fleet add up to. It waits for nothing and asks nobody.
type tally struct {
	members    []member // the first client is at index 0
	settlers   int      // clients beyond this number are newcomers; 0 means that there are none
	servers    []string // every server that the last lookup found
	recoveries []time.Duration
	lost       int // sessions
	failed     int // attempts of which no candidate served
	troubles   troubles
}

// member is a client and where it is.
type member struct {
	server   string    // empty without a session
	last     string    // the server of the last session
	lostAt   time.Time // when it lost the last session; zero when it has one or never had
	sessions int
}

// apply takes one event in. When it ends the time without a session that a loss began, that time is returned.
func (t *tally) apply(e fleetEvent) (since time.Duration, recovered bool) {
	for len(t.members) < e.client {
		t.members = append(t.members, member{})
	}
	m := &t.members[e.client-1]
	t.troubles.note(e)
	switch e.Kind {
	case evenkeel.EventResolved:
		t.servers = t.servers[:0]
		for _, endpoint := range e.Endpoints {
			t.servers = append(t.servers, endpoint.Addr())
		}
	case evenkeel.EventConnected:
		m.server = e.Endpoint.Addr()
		m.last = m.server
		m.sessions++
		if !m.lostAt.IsZero() {
			since, recovered = e.Time.Sub(m.lostAt), true
			t.recoveries = append(t.recoveries, since)
			m.lostAt = time.Time{}
		}
	case evenkeel.EventLost:
		t.lost++
		m.server = ""
		m.lostAt = e.Time
	case evenkeel.EventBackingOff:
		t.failed++
	case evenkeel.EventClosed:
		m.server = ""
	default:
	}
	return since, recovered
}

// ready counts the clients that have a session.
func (t *tally) ready() int {
	ready := 0
	for _, m := range t.members {
		if m.server != "" {
			ready++
		}
	}
	return ready
}

// connections counts the sessions of each server: those of the last lookup, and others that still have sessions.
func (t *tally) connections() map[string]int {
	counts := make(map[string]int, len(t.servers))
	for _, s := range t.servers {
		counts[s] = 0
	}
	for _, m := range t.members {
		if m.server != "" {
			counts[m.server]++
		}
	}
	return counts
}

// lanes lists the servers and their clients, by name, for a board. name shortens what is shown of a server.
func (t *tally) lanes(name func(server string) string) []lane {
	at := make(map[string]*lane)
	for server := range t.connections() {
		at[server] = &lane{name: server}
	}
	for i, m := range t.members {
		if m.server != "" {
			at[m.server].clients[t.groupOf(i, m)]++
		} else if l := at[m.last]; l != nil {
			l.seekers++
		}
	}
	lanes := make([]lane, 0, len(at))
	for _, l := range at {
		lanes = append(lanes, *l)
	}
	slices.SortFunc(lanes, func(a, b lane) int { return compareServers(a.name, b.name) })
	for i := range lanes {
		lanes[i].name = name(lanes[i].name)
	}
	return lanes
}

func (t *tally) groupOf(index int, m member) group {
	switch {
	case t.settlers > 0 && index >= t.settlers:
		return newcomer
	case m.sessions > 1:
		return moved
	default:
		return atHome
	}
}

// compareServers sorts by length first, so that node-2 comes before node-10.
func compareServers(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// spread is the most that one server has, over the mean of all; 0 without connections.
func spread(connections map[string]int) float64 {
	most, sum := 0, 0
	for _, n := range connections {
		most, sum = max(most, n), sum+n
	}
	if sum == 0 {
		return 0
	}
	return math.Round(1000*float64(most*len(connections))/float64(sum)) / 1000
}

// durations sums up how long something took, in JSON in milliseconds.
type durations struct {
	Count  int     `json:"count"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// summarise returns nil when there is nothing to sum up.
func summarise(all []time.Duration) *durations {
	if len(all) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(all))
	return &durations{
		Count:  len(sorted),
		Median: milliseconds(percentile(sorted, 50)),
		P99:    milliseconds(percentile(sorted, 99)),
		Max:    milliseconds(sorted[len(sorted)-1]),
	}
}

// percentile returns the smallest of the sorted values that at least p percent do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

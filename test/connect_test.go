// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"
)

// connectEvent is an event as connect --json documents it.
type connectEvent struct {
	Time       time.Time      `json:"time"`
	Client     int            `json:"client"`
	Event      string         `json:"event"`
	Endpoint   string         `json:"endpoint"`
	Generation uint64         `json:"generation"`
	Counts     map[string]int `json:"counts"`
	Endpoints  []string       `json:"endpoints"`
	Error      string         `json:"error"`
	WaitMS     *float64       `json:"wait_ms"`
	SinceLost  *float64       `json:"since_lost_ms"`
	Dropped    int            `json:"dropped"`
}

// connectSummary is the last object of connect --json.
type connectSummary struct {
	Summary        bool           `json:"summary"`
	Clients        int            `json:"clients"`
	Ready          int            `json:"ready"`
	Connections    map[string]int `json:"connections"`
	Recovery       *recovery      `json:"recovery_ms"`
	Lost           int            `json:"lost"`
	FailedAttempts int            `json:"failed_attempts"`
	ElapsedMS      float64        `json:"elapsed_ms"`
	Causes         []cause        `json:"causes"`
}

// cause is why sessions were lost or attempts failed at a server.
type cause struct {
	Endpoint string    `json:"endpoint"`
	Cause    string    `json:"cause"`
	Count    int       `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

type recovery struct {
	Count  int     `json:"count"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// connecting is a running "evenkeel connect".
type connecting struct {
	*process
	clients int
}

// connect starts clients that hold their sessions until they are interrupted.
func connect(t *testing.T, connectionString string, clients int, args ...string) *connecting {
	t.Helper()
	needSignals(t)
	args = append([]string{"connect", "--clients", strconv.Itoa(clients), "--for", "0", "--json"}, args...)
	return &connecting{process: start(t, evenkeel, append(args, connectionString)...), clients: clients}
}

// events are the events so far. A line that is no event is the summary.
func (c *connecting) events() []connectEvent {
	c.t.Helper()
	lines, _ := c.out.snapshot()
	return c.parse(lines)
}

func (c *connecting) parse(lines []string) []connectEvent {
	c.t.Helper()
	events := make([]connectEvent, 0, len(lines))
	for _, line := range lines {
		var kind struct{ Summary bool }
		if err := json.Unmarshal([]byte(line), &kind); err != nil {
			c.t.Fatalf("connect wrote %q: %v", line, err)
		}
		if !kind.Summary {
			var e connectEvent
			strict(c.t, line, &e)
			events = append(events, e)
		}
	}
	return events
}

// sessions are the "connected" events of the clients that have a session, by client.
func sessions(events []connectEvent) map[int]connectEvent {
	held := make(map[int]connectEvent)
	for _, e := range events {
		switch e.Event {
		case "connected":
			held[e.Client] = e
		case "lost":
			delete(held, e.Client)
		}
	}
	return held
}

// spread counts sessions by endpoint.
func spread(held map[int]connectEvent) map[string]int {
	counts := make(map[string]int)
	for _, e := range held {
		counts[e.Endpoint]++
	}
	return counts
}

// awaitAll waits until every client has a session, and none of them on the endpoint without, and returns the sessions.
func (c *connecting) awaitAll(ctx context.Context, without string) map[int]connectEvent {
	c.t.Helper()
	var held map[int]connectEvent
	c.awaitOutput(ctx, "all of its clients to be ready", func(lines []string) bool {
		held = sessions(c.parse(lines))
		return len(held) == c.clients && spread(held)[without] == 0
	})
	return held
}

// awaitAge waits until the youngest session has stood for so long.
func (c *connecting) awaitAge(ctx context.Context, age time.Duration) {
	c.t.Helper()
	youngest := time.Time{}
	for _, e := range c.awaitAll(ctx, "") {
		if e.Time.After(youngest) {
			youngest = e.Time
		}
	}
	timer := time.NewTimer(time.Until(youngest.Add(age)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		c.t.Fatalf("wait for sessions that have stood for %v: %v", age, ctx.Err())
	}
}

// finish interrupts the clients and returns their summary. All of them have to be ready, and the exit status 0.
func (c *connecting) finish(ctx context.Context) connectSummary {
	c.t.Helper()
	if status := c.interrupt(ctx); status != 0 {
		c.t.Errorf("connect ended with status %d, want 0", status)
	}
	lines, _ := c.out.snapshot()
	if len(lines) == 0 {
		c.t.Fatal("connect wrote no summary")
	}
	var s connectSummary
	strict(c.t, lines[len(lines)-1], &s)
	if !s.Summary || s.Clients != c.clients || s.Ready != c.clients {
		c.t.Errorf("summary is %+v, want all %d clients ready", s, c.clients)
	}
	return s
}

// inOrder checks that the events of each client make sense as a story: sessions count from 1, and each loss ends one.
func inOrder(t *testing.T, events []connectEvent) {
	t.Helper()
	generation := make(map[int]uint64)
	up := make(map[int]bool)
	for _, e := range events {
		switch e.Event {
		case "connected":
			generation[e.Client]++
			if e.Generation != generation[e.Client] || up[e.Client] {
				t.Errorf("client %d: connected with generation %d while it has had %d (up: %v)",
					e.Client, e.Generation, generation[e.Client]-1, up[e.Client])
			}
			up[e.Client] = true
		case "lost":
			if !up[e.Client] {
				t.Errorf("client %d: lost a session that it did not have", e.Client)
			}
			up[e.Client] = false
		}
		if e.Dropped > 0 {
			t.Errorf("client %d: %d events were dropped", e.Client, e.Dropped)
		}
	}
}

// median is the middle of the durations, by rank as the command has it.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)+1)/2-1]
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && unix

package test_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// holdClients are how many clients a fleet that is disturbed has.
const holdClients = 60

// heldFleet is servers of one authority in processes of their own, by the endpoint that clients call them.
type heldFleet struct {
	t         *testing.T
	ca        *authority
	endpoints []string
	servers   map[string]*serving
}

// startHeldFleet starts n servers, which end with the test.
func startHeldFleet(ctx context.Context, t *testing.T, n int, args ...string) *heldFleet {
	t.Helper()
	needSignals(t)
	f := &heldFleet{t: t, ca: newAuthority(t), servers: make(map[string]*serving)}
	for i := 1; i <= n; i++ {
		s := f.start(ctx, fmt.Sprintf("node%d.test", i), loopback(i), args...)
		f.endpoints = append(f.endpoints, s.Listening)
	}
	return f
}

// start starts a server of the fleet on an address. Of two --listen the last one counts.
func (f *heldFleet) start(ctx context.Context, name, address string, args ...string) *serving {
	f.t.Helper()
	cert, key := f.ca.issue(name, address)
	s := serve(ctx, f.t, address, append([]string{"--cert", cert, "--key", key}, args...)...)
	f.servers[s.Listening] = s
	return s
}

// restart starts a server that has ended on the endpoint that it had.
func (f *heldFleet) restart(ctx context.Context, endpoint string) {
	f.t.Helper()
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		f.t.Fatal(err)
	}
	f.start(ctx, "back.test", host, "--listen", endpoint)
}

// target is the connection string of the whole fleet.
func (f *heldFleet) target() string { return "chronicle://" + strings.Join(f.endpoints, ",") }

// busiest is the server with the most sessions.
func (f *heldFleet) busiest(held map[int]connectEvent) string {
	counts := spread(held)
	most := f.endpoints[0]
	for _, endpoint := range f.endpoints {
		if counts[endpoint] > counts[most] {
			most = endpoint
		}
	}
	return most
}

// without are the endpoints that are not among those named.
func (f *heldFleet) without(named ...string) []string {
	var left []string
	for _, endpoint := range f.endpoints {
		other := true
		for _, name := range named {
			other = other && name != endpoint
		}
		if other {
			left = append(left, endpoint)
		}
	}
	return left
}

// signal sends the process a signal.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("send %v to %s: %v", s, p.name, err)
	}
}

// awaitNoneOn waits until every client has a session, and none of them on any of these endpoints.
func (c *connecting) awaitNoneOn(ctx context.Context, endpoints ...string) map[int]connectEvent {
	c.t.Helper()
	var held map[int]connectEvent
	c.awaitOutput(ctx, "its clients to leave "+strings.Join(endpoints, " and "), func(lines []string) bool {
		held = sessions(c.parse(lines))
		counts := spread(held)
		for _, endpoint := range endpoints {
			if counts[endpoint] > 0 {
				return false
			}
		}
		return len(held) == c.clients
	})
	return held
}

// moved says how long after a point in time each client of an endpoint was ready elsewhere. A client of another endpoint
// that is not among the disturbed has to have the session it had.
func moved(t *testing.T, from string, began time.Time, before, after map[int]connectEvent, disturbed ...string) []time.Duration {
	t.Helper()
	var took []time.Duration
	for client, was := range before {
		is, ok := after[client]
		excused := false
		for _, name := range disturbed {
			excused = excused || name == was.Endpoint
		}
		switch {
		case was.Endpoint == from && (!ok || is.Generation == was.Generation):
			t.Errorf("client %d of %s has no other session", client, from)
		case was.Endpoint == from:
			took = append(took, is.Time.Sub(began))
		case !excused && (!ok || is.Generation != was.Generation):
			t.Errorf("client %d of %s, which is well, was disturbed", client, was.Endpoint)
		}
	}
	return took
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"errors"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// A name server that fails during a reconnect costs the time of its lookup: the servers found last are used, and an event
// says why.
func testAFailingNameServerLeavesTheLastGoodServers(t *testing.T) {
	tests := []struct {
		name   string
		fault  evenkeeltest.DNSFault
		kind   error
		within time.Duration
	}{
		{"hang", evenkeeltest.DNSFault{Silent: true}, discover.ErrTimeout, 5 * time.Second},
		{"SERVFAIL", evenkeeltest.DNSFault{Code: "SERVFAIL"}, discover.ErrServerFailed, 0},
		{"REFUSED", evenkeeltest.DNSFault{Code: "REFUSED"}, discover.ErrServerFailed, 0},
		{"no such name", evenkeeltest.DNSFault{Code: "NXDOMAIN"}, discover.ErrNoSuchName, 0},
		{"no records", evenkeeltest.DNSFault{Code: "NOERROR"}, discover.ErrNoRecords, 0},
		{"a referral", evenkeeltest.DNSFault{Code: "NOERROR", Lame: true, Referral: "elsewhere.test"}, discover.ErrServerFailed, 0},
	}
	var cases together
	for _, tt := range tests {
		cases.run(t, tt.name, func(t *testing.T) {
			c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
			conn, events := meet(t, c, c.SRVConnectionString())
			victim := host(t, c, conn.Server())
			pass(steadily)
			if err := c.DNS.SetFault("", "", tt.fault); err != nil {
				t.Fatal(err)
			}
			if err := victim.Kill(); err != nil {
				t.Fatal(err)
			}
			lost, again := events.soon(t, evenkeel.EventLost, 1), events.soon(t, evenkeel.EventConnected, 2)
			if d := again.Time.Sub(lost.Time); d < tt.within || d > tt.within+slack {
				t.Errorf("ready again after %v, want %v", d, tt.within)
			}
			if host(t, c, again.Endpoint) == victim {
				t.Error("ready on the server that was killed")
			}
			resolved := events.soon(t, evenkeel.EventResolved, 2)
			stale, ok := errors.AsType[*discover.StaleError](resolved.Err)
			if !ok || !errors.Is(stale, tt.kind) || len(resolved.Endpoints) != 2 {
				t.Errorf("the lookup brought %d servers and %v, want the 2 known ones and a *StaleError of %v",
					len(resolved.Endpoints), resolved.Err, tt.kind)
			}
		})
	}
	cases.wait()
}

// Truncated answers are asked for again over TCP.
func testATruncatedAnswerDuringAReconnectIsNoFault(t *testing.T) {
	live(t)
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	conn, events := meet(t, c, c.SRVConnectionString())
	pass(steadily)
	if err := c.DNS.SetFault("", "", evenkeeltest.DNSFault{Truncate: true}); err != nil {
		t.Fatal(err)
	}
	if err := host(t, c, conn.Server()).Kill(); err != nil {
		t.Fatal(err)
	}
	lost, again := events.soon(t, evenkeel.EventLost, 1), events.soon(t, evenkeel.EventConnected, 2)
	if d := again.Time.Sub(lost.Time); d > slack {
		t.Errorf("ready again after %v", d)
	}
	if resolved := events.soon(t, evenkeel.EventResolved, 2); resolved.Err != nil || len(resolved.Endpoints) != 2 {
		t.Errorf("the lookup brought %d servers and %v, want 2 and no error", len(resolved.Endpoints), resolved.Err)
	}
}

// The set of servers is asked for afresh on a reconnect: servers that have left it get no attempt, new ones do.
func testAChangedSetOfServersIsUsedOnReconnect(t *testing.T) {
	live(t)
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2})
	conn, events := meet(t, c, c.SRVConnectionString())
	pass(steadily)
	former := c.Servers
	if _, err := c.AddServer(); err != nil {
		t.Fatal(err)
	}
	for _, s := range former {
		if err := c.RemoveServer(s); err != nil {
			t.Fatal(err)
		}
	}
	again := events.soon(t, evenkeel.EventConnected, 2)
	if got := again.Endpoint.Port; got != c.Servers[0].Endpoint().Port {
		t.Errorf("ready on port %d, want the new server", got)
	}
	if conn.State() != evenkeel.StateReady {
		t.Errorf("state is %v", conn.State())
	}
}

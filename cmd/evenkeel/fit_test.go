// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// words are a text with single blanks, however it was wrapped.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestIncompatibleServersAreNamedInWords(t *testing.T) {
	t.Parallel()
	const advice = "the versions of server and client do not fit: upgrade the older one, or put skipCompatibilityCheck=true into the connection string to try all the same"
	tests := []struct {
		name  string
		fault evenkeeltest.ContractFault
		want  string
	}{
		{
			"it says so", evenkeeltest.IncompatibleContract(),
			"the server's contract does not fit this client: Cratis.Chronicle.Contracts.Clients.ConnectionService/Connect: the method is missing; " + advice,
		},
		{
			"an old contract", evenkeeltest.OldestContract(),
			"Cratis.Chronicle.Contracts.Clients.ConnectionService/ConnectionKeepAlive: the method is missing; " + advice,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
			c.Servers[0].SetFault(evenkeeltest.Fault{Contract: tt.fault})
			ca, addr := caFile(t, c), c.Servers[0].Addr()
			want := "compatibility " + addr + ": "
			for _, args := range [][]string{{"probe"}, {"probe", "--json"}, {"connect", "--for", "2s"}, {"connect", "--for", "2s", "--json"}} {
				got := call(t, nil, "", append(args, "--ca", ca, c.ConnectionString())...)
				all := words(got.stdout + got.stderr)
				if !strings.Contains(all, want) || !strings.Contains(all, tt.want) {
					t.Errorf("%v: got %q, want %q and %q in it", args, all, want, tt.want)
				}
			}
			for _, args := range [][]string{{"probe"}, {"connect", "--for", "2s"}} {
				got := call(t, nil, "", append(args, "--ca", ca, skipping(c))...)
				if strings.Contains(got.stdout+got.stderr, "contract") || got.status != exitDone {
					t.Errorf("%v, skipping the check: status %d: %s%s", args, got.status, got.stdout, got.stderr)
				}
			}
		})
	}
}

// TestProbeGivesNoShareWhereNoServerFits: no client gets a session there, and what to do is said once.
func TestProbeGivesNoShareWhereNoServerFits(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 3})
	for _, s := range c.Servers[1:] {
		s.SetFault(evenkeeltest.Fault{Contract: evenkeeltest.IncompatibleContract()})
	}
	ca := caFile(t, c)
	some := call(t, nil, "", "probe", "--ca", ca, c.ConnectionString())
	if some.status != exitDone || !strings.Contains(some.stdout, "100%  "+c.Servers[0].Addr()) {
		t.Errorf("one fits: status %d, want %d and all clients there:\n%s", some.status, exitDone, some.stdout)
	}
	c.Servers[0].SetFault(evenkeeltest.Fault{Contract: evenkeeltest.OldestContract()})
	none := call(t, nil, "", "probe", "--ca", ca, c.ConnectionString())
	if none.status != exitFailed || strings.Contains(none.stdout, "%") || strings.Contains(none.stdout, "picks") {
		t.Errorf("none fits: status %d, want %d and no share:\n%s", none.status, exitFailed, none.stdout)
	}
	if n := strings.Count(words(none.stdout), "upgrade the older one"); n != 1 {
		t.Errorf("the advice is given %d times, want once:\n%s", n, none.stdout)
	}
	if want := "clients get no session: none of 3 servers serves what they need"; !strings.Contains(none.stderr, want) {
		t.Errorf("standard error %q, want %q in it", none.stderr, want)
	}
}

// skipping is the connection string of a cluster with the option that skips the check.
func skipping(c *evenkeeltest.Cluster) string {
	separator := "/?"
	if strings.Contains(c.ConnectionString(), "?") {
		separator = "&"
	}
	return c.ConnectionString() + separator + "skipCompatibilityCheck=true"
}

func TestAServerThatDoesNotSayWhetherItFitsIsUsed(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	c.Servers[0].SetFault(evenkeeltest.Fault{Contract: evenkeeltest.ContractFault{Older: true}})
	got := call(t, nil, "", "connect", "--for", "2s", "--ca", caFile(t, c), c.ConnectionString())
	want := c.Servers[0].Addr() + " does not say whether it fits this client: "
	if got.status != exitDone || !strings.Contains(words(got.stdout), want) {
		t.Errorf("status %d, got %q, want %q in it", got.status, got.stdout, want)
	}
	probed := call(t, nil, "", "probe", "--ca", caFile(t, c), c.ConnectionString())
	if probed.status != exitDone || strings.Contains(probed.stdout, "compatib") {
		t.Errorf("probe: status %d, got %q, want no word of it", probed.status, probed.stdout)
	}
}

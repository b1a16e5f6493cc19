// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && linux

package test_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

const (
	// partitionLimit bounds a run in a network of its own, with the build of the command.
	partitionLimit = 2 * time.Minute

	// partitionSpan is how long a part of the network is cut off.
	partitionSpan = 5 * time.Second
	// pingTimeout is how long sent data may go without an answer (TCP_USER_TIMEOUT).
	pingTimeout = time.Second
	// cutLimit is how soon no call may fail any more: those that wait for an answer of a server that was cut off fail
	// until the channel has noticed, and have a deadline.
	cutLimit = pingTimeout + trafficDeadline + dueLimit
	// healedLimit is how soon a server gets calls again: the system tries its connection again after 1, 3, 7 and 15 s.
	healedLimit = 10 * time.Second
)

// Servers that the network has cut off are left within the time-out of the transport, calls go to those that can be
// reached, and come back by themselves. That the name server is cut off as well changes nothing.
func TestChannelSurvivesAPartition(t *testing.T) {
	find(t, "nft")
	find(t, "knotd")
	if !inNamespace(t, partitionLimit) {
		return
	}
	ctx := within(t)
	f := startChannelFleet(ctx, t, 3)
	tr := startTraffic(t, f.dial(grpc.WithKeepaliveParams(keepalive.ClientParameters{Timeout: pingTimeout})))
	tr.await(ctx, time.Time{}, "calls to all servers", func(calls []fleetCall) bool { return reached(calls, 1, 2, 3) })

	cut := time.Now()
	filter(ctx, t, "ip saddr { 127.0.0.2, 127.0.0.3 } drop", "ip daddr { 127.0.0.2, 127.0.0.3 } drop", "udp dport "+portOf(t, f.dns.addr)+" drop")
	tr.run(ctx, partitionSpan)
	healed := time.Now()
	filter(ctx, t)
	calls := tr.await(ctx, healed, "calls to all servers", func(calls []fleetCall) bool { return reached(calls, 1, 2, 3) })
	settled := time.Now()
	after := tr.await(ctx, settled, "calls", func(calls []fleetCall) bool { return len(calls) >= evenCalls })
	tr.end()
	tr.even(after, 1, 2, 3)

	all := tr.since(time.Time{})
	last := max(0, lastFailure(all).Sub(cut))
	t.Logf("%d of %d calls failed in a partition of %v, the last %v after its beginning; the servers had calls again %v and %v after its end",
		len(failed(all)), len(tr.since(cut)), ms(healed.Sub(cut)), ms(last), ms(firstOn(calls, 2).Sub(healed)), ms(firstOn(calls, 3).Sub(healed)))
	if last > cutLimit {
		t.Errorf("calls failed until %v after the cut, want %v at most", last, cutLimit)
	}
	for _, n := range []int{2, 3} {
		if took := firstOn(calls, n).Sub(healed); took > healedLimit {
			t.Errorf("server %d had its first call %v after the end of the partition, want %v at most", n, took, healedLimit)
		}
	}
}

// filter makes these the rules of the network, which is this test's own.
func filter(ctx context.Context, t *testing.T, rules ...string) {
	t.Helper()
	var text strings.Builder
	fmt.Fprint(&text, "table ip cut\ndelete table ip cut\ntable ip cut {\nchain in {\ntype filter hook input priority 0\n")
	for _, rule := range rules {
		fmt.Fprintln(&text, rule)
	}
	fmt.Fprint(&text, "}\n}\n")
	cmd := exec.CommandContext(ctx, find(t, "nft"), "-f", "-")
	cmd.Stdin = strings.NewReader(text.String())
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v: %s", err, output)
	}
}

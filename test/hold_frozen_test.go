// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && unix

package test_test

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"
)

const (
	// frozenWithin is how soon the clients of a frozen server are ready elsewhere: 5 s of silence, and a reconnect.
	frozenWithin = 6500 * time.Millisecond
	// besideWithin is how soon the clients of a killed server are ready while another one is frozen and nobody knows yet:
	// the round that finds out waits 2 s for it.
	besideWithin = 3 * time.Second
	// laterWithin is the same for a client that knows it: the random wait, a round of probes, and a busy machine.
	laterWithin = 1500 * time.Millisecond
	// quietFor is how long a continued server is watched: longer than a session lasts that is not answered.
	quietFor = 7 * time.Second
)

// A server that is stopped says nothing any more, and nobody else is told either. Its clients notice by themselves.
func TestHoldClientsOfAFrozenServerAreReadyElsewhere(t *testing.T) {
	alone(t)
	ctx := within(t)
	f := startHeldFleet(ctx, t, 3)
	clients := connect(t, f.target(), holdClients, "--ca", f.ca.file)
	clients.awaitAge(ctx, settledAge)
	before := clients.awaitAll(ctx, "")
	frozen := f.busiest(before)
	stopped := time.Now()
	f.servers[frozen].signal(syscall.SIGSTOP)
	after := clients.awaitNoneOn(ctx, frozen)

	took := moved(t, frozen, stopped, before, after)
	t.Logf("the %d clients of the frozen server are ready elsewhere after a median of %v, at most %v; spread %v",
		len(took), ms(median(took)), ms(slices.Max(took)), sortedCounts(spread(after)))
	if got := slices.Max(took); got >= frozenWithin {
		t.Errorf("the last client was ready %v after the stop, want less than %v", got, frozenWithin)
	}
	f.checkNoGhosts(ctx, clients, frozen)
}

// checkNoGhosts continues a server: its count falls to 0 and stays there, the others count all clients, and no client
// has anything to do with it.
func (f *heldFleet) checkNoGhosts(ctx context.Context, clients *connecting, frozen string) {
	f.t.Helper()
	lines, _ := clients.out.snapshot()
	continued := time.Now()
	f.servers[frozen].signal(syscall.SIGCONT)
	awaitCount(ctx, f.t, 0, f.servers[frozen])
	f.t.Logf("the continued server counts 0 after %v", ms(time.Since(continued)))
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	var others []*serving
	for _, endpoint := range f.without(frozen) {
		others = append(others, f.servers[endpoint])
	}
	for time.Since(continued) < quietFor {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			f.t.Fatal(ctx.Err())
		}
		if got := f.servers[frozen].count(ctx); got != 0 {
			f.t.Fatalf("%v after it was continued the server counts %d", ms(time.Since(continued)), got)
		}
	}
	awaitCount(ctx, f.t, holdClients, others...)
	if now, _ := clients.out.snapshot(); len(now) != len(lines) {
		f.t.Errorf("clients were not left alone after the server was continued: %q", now[len(lines):])
	}
	events := clients.events()
	inOrder(f.t, events)
	if summary := clients.finish(ctx); summary.Lost != spread(sessionsAtFirst(events))[frozen] {
		f.t.Errorf("%d sessions were lost, want those of the frozen server only", summary.Lost)
	}
}

// sessionsAtFirst are the first sessions of the clients.
func sessionsAtFirst(events []connectEvent) map[int]connectEvent {
	first := make(map[int]connectEvent)
	for _, e := range events {
		if e.Event == "connected" && e.Generation == 1 {
			first[e.Client] = e
		}
	}
	return first
}

// While one of three servers is frozen another one is killed, at once, when no client knows of the first yet, and started
// again, and then the third is killed. A client waits for the frozen one in its first round only; later it does not take
// it for the better one of two either because the other has just lost sessions.
func TestHoldAFrozenServerSlowsNoReconnect(t *testing.T) {
	alone(t)
	ctx := within(t)
	f := startHeldFleet(ctx, t, 3)
	clients := connect(t, f.target(), holdClients, "--ca", f.ca.file)
	clients.awaitAge(ctx, settledAge)
	before := clients.awaitAll(ctx, "")
	frozen := f.busiest(before)
	rest := f.without(frozen)
	second, third := rest[0], rest[1]
	f.servers[frozen].signal(syscall.SIGSTOP)
	killed := time.Now()
	f.servers[second].kill()
	after := clients.awaitNoneOn(ctx, frozen, second)
	took := moved(t, second, killed, before, after, frozen)
	checkMoves(t, "first round", took, besideWithin)

	f.restart(ctx, second)
	clients.awaitAge(ctx, settledAge)
	killed = time.Now()
	f.servers[third].kill()
	later := clients.awaitNoneOn(ctx, frozen, third)
	known, unknown := byExperience(after)
	checkMoves(t, "later round", moved(t, third, killed, known, later), laterWithin)
	checkMoves(t, "first round of others", moved(t, third, killed, unknown, later), besideWithin)
	inOrder(t, clients.events())
	clients.finish(ctx)
}

// byExperience parts the clients that have looked for another server from those that have not.
func byExperience(held map[int]connectEvent) (known, unknown map[int]connectEvent) {
	known, unknown = make(map[int]connectEvent), make(map[int]connectEvent)
	for client, e := range held {
		if e.Generation > 1 {
			known[client] = e
		} else {
			unknown[client] = e
		}
	}
	return known, unknown
}

// checkMoves compares how long clients took to be ready elsewhere with what they may take.
func checkMoves(t *testing.T, what string, took []time.Duration, limit time.Duration) {
	t.Helper()
	if len(took) == 0 {
		t.Fatalf("%s: no client had to move", what)
	}
	t.Logf("%s: %d clients of the killed server are ready elsewhere after a median of %v, at most %v",
		what, len(took), ms(median(took)), ms(slices.Max(took)))
	if got := slices.Max(took); got > limit {
		t.Errorf("%s: the last client was ready after %v, want %v at most", what, got, limit)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

func TestAddedEndpointsGetCallsWithinAnInterval(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	f.set(1, 2)
	conn := dial(t, open(t, quick()), f.target())
	reaches(t, conn, f.at(1), f.at(2))
	f.set(1, 2, 3, 4) // nothing else happens: no connection breaks
	reaches(t, conn, f.at(1), f.at(2), f.at(3), f.at(4))
}

func TestRemovedEndpointsGetNoCalls(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	config := quick()
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1), f.at(2), f.at(3))
	f.set(2)
	heard.wait(t, "removal", func() bool {
		return len(heard.changes) > 0 && len(heard.changes[len(heard.changes)-1].Removed) == 2
	})
	reaches(t, conn, f.at(2))
	if got := tally(t, conn, 100); got[f.at(2)] != 100 {
		t.Errorf("got %v, want 100 calls at %s", got, f.at(2))
	}
}

func TestServiceThatMovesIsFollowed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.start(2)
	config := quick()
	config.Interval, config.MaxInterval = time.Hour, time.Hour // only hints make it look
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1))
	f.set(2)
	f.stop(1)
	if got := serves(t, conn); got != f.at(2) {
		t.Errorf("got an answer of %s, want %s", got, f.at(2))
	}
}

// TestFloorDoesNotApplyWhileNothingIsUsable replaces all servers twice at once: the second loss must not wait for the
// floor of 30 s.
func TestFloorDoesNotApplyWhileNothingIsUsable(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	config := quick()
	config.Interval, config.MaxInterval, config.MinInterval = time.Hour, time.Hour, 30*time.Second
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1))
	for i := 2; i <= 3; i++ {
		f.start(i)
		f.set(i)
		f.stop(i - 1)
		began := time.Now()
		if got := serves(t, conn); got != f.at(i) {
			t.Errorf("got an answer of %s, want %s", got, f.at(i))
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("replacement %d took %v, want about a second", i-1, took)
		}
	}
}

func TestFailedLookupsDropNoWorkingEndpoint(t *testing.T) {
	t.Parallel()
	faults := map[string]evenkeeltest.DNSFault{
		"no such name": {Code: "NXDOMAIN"}, "empty answer": {Code: "NOERROR"}, "server failure": {Code: "SERVFAIL"},
		"refused": {Code: "REFUSED"}, "silence": {Silent: true},
		"garbage": {Raw: func(q evenkeeltest.DNSQuery) [][]byte { return [][]byte{q.Packed[:8]} }},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 3)
			config := quick()
			heard := hear(&config)
			conn := dial(t, open(t, config), f.target())
			reaches(t, conn, f.at(1), f.at(2), f.at(3))
			if err := f.dns.SetFault(fleetName, "", fault); err != nil {
				t.Fatal(err)
			}
			f.stop(1) // which makes the policy ask for a lookup
			heard.wait(t, "a failed lookup", func() bool {
				last := heard.resolutions[len(heard.resolutions)-1]
				return last.Err != nil && last.Endpoints == 0 && last.Class != ""
			})
			reaches(t, conn, f.at(2), f.at(3))
			f.dns.ClearFaults()
			f.set(2, 3)
			heard.wait(t, "removal of the stopped server", func() bool {
				last := heard.changes[len(heard.changes)-1]
				return len(last.Removed) == 1 && last.Removed[0].Host == f.addr(1).String()
			})
			reaches(t, conn, f.at(2), f.at(3))
		})
	}
}

func TestNameThatComesBackIsFollowed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.start(2)
	config := quick()
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1))
	f.dns.Remove(fleetName)
	f.stop(1)
	heard.wait(t, "three lookups without the name", func() bool {
		failed := 0
		for _, r := range heard.resolutions {
			if r.Class == discover.ClassNoSuchName {
				failed++
			}
		}
		return failed >= 3
	})
	if _, err := who(testContext(t), conn); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v while nothing is left, want Unavailable", err)
	}
	f.set(2)
	if got := serves(t, conn); got != f.at(2) {
		t.Errorf("got an answer of %s, want %s", got, f.at(2))
	}
}

func TestUnresolvableTargetFailsCallsAtOnceWithTheErrorOfDNS(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.dns.Remove(fleetName)
	conn := dial(t, open(t, quick()), f.target())
	_, err := who(testContext(t), conn)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), fleetName) || !strings.Contains(err.Error(), discover.ErrNoSuchName.Error()) {
		t.Errorf("got %v, want Unavailable with the name and that there is no such name", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err = who(ctx, conn, grpc.WaitForReady(true)); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v of a call that waits for ready, want its deadline exceeded", err)
	}
	f.set(1)
	if _, err = who(testContext(t), conn, grpc.WaitForReady(true)); err != nil {
		t.Errorf("got %v of a call that waits for ready when the name is there, want an answer", err)
	}
}

func TestFirstFailedLookupIsRepeatedSoon(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	if err := f.dns.SetFault(fleetName, "", evenkeeltest.DNSFault{Code: "SERVFAIL"}); err != nil {
		t.Fatal(err)
	}
	config := quick()
	config.Interval, config.MaxInterval, config.MinInterval = 30*time.Second, 300*time.Second, 5*time.Second
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	conn.Connect()
	heard.wait(t, "the failed lookup", func() bool { return len(heard.resolutions) > 0 })
	f.dns.ClearFaults()
	began := time.Now()
	serves(t, conn)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the first success took %v, want about 1 s", took)
	}
}

func TestNameOfTwoFamiliesIsOneEndpoint(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	unroutable := netip.MustParseAddr("2001:db8::1")
	f.dns.SetAddrs(fleetName, f.addr(1), unroutable)
	config := quick()
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	if got := tally(t, conn, 20); got[f.at(1)] != 20 {
		t.Errorf("got %v, want all calls answered: an address that leads nowhere must not eat half of them", got)
	}
	heard.wait(t, "the set", func() bool { return len(heard.changes) > 0 })
	if added := heard.change(0).Added; len(added) != 1 || len(added[0].Addrs) != 2 {
		t.Errorf("got %v added, want one endpoint with two addresses", added)
	}
}

func TestShuffledAnswersReconnectNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	config := quick()
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1), f.at(2), f.at(3))
	changes := heard.changeCount()
	for _, order := range [][]int{{3, 1, 2}, {2, 3, 1}, {1, 3, 2}} {
		f.set(order...)
		heard.resolved(t, 2)
	}
	if got := heard.changeCount(); got != changes {
		t.Errorf("got %d changes by the order of the records, want none", got-changes)
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	for _, e := range heard.endpoints {
		if e.Err != nil {
			t.Errorf("endpoint %s was disturbed: %v", e.Addr, e.Err)
		}
	}
}

func TestManyRecordsAreReadOverTCP(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.set(numbers(1, 200)...)
	config := quick()
	config.Interval, config.MaxInterval = time.Minute, time.Minute
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	conn.Connect()
	heard.wait(t, "the set", func() bool { return len(heard.changes) > 0 })
	if got := len(heard.change(0).Added); got != 200 {
		t.Errorf("got %d endpoints, want 200", got)
	}
}

func TestHungNameServerHoldsUpNeitherCallsNorClose(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	config := quick()
	c := open(t, config)
	conn := dial(t, c, f.target())
	reaches(t, conn, f.at(1), f.at(2))
	before := f.dns.Count(fleetName, "A")
	if err := f.dns.SetFault("", "", evenkeeltest.DNSFault{Silent: true}); err != nil {
		t.Fatal(err)
	}
	if err := f.dns.Wait(testContext(t), fleetName, "A", before+2); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	tally(t, conn, 100)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("100 calls took %v while the name server hangs", took)
	}
	closesSoon(t, "the channel of grpc-go", func() { _ = conn.Close() })
	closesSoon(t, "the channel", func() { _ = c.Close() })
}

func TestCloseInTheFirstHungLookup(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	if err := f.dns.SetFault("", "", evenkeeltest.DNSFault{Silent: true}); err != nil {
		t.Fatal(err)
	}
	c := open(t, quick())
	first, second := dial(t, c, f.target()), dial(t, c, f.target())
	first.Connect()
	second.Connect()
	if err := f.dns.Wait(testContext(t), fleetName, "A", 1); err != nil {
		t.Fatal(err)
	}
	closesSoon(t, "the channel of grpc-go", func() { _ = first.Close() })
	closesSoon(t, "the channel", func() { _ = c.Close() })
	closesSoon(t, "the channel of grpc-go, after the channel", func() { _ = second.Close() })
}

// closesSoon fails when a close takes 100 ms or more. A machine under load gets three times that.
func closesSoon(t *testing.T, what string, end func()) {
	t.Helper()
	began := time.Now()
	end()
	if took := time.Since(began); took > 300*time.Millisecond {
		t.Errorf("closing %s took %v, want below 100 ms", what, took)
	} else {
		t.Logf("closing %s took %v", what, took)
	}
}

func TestResolveNowIsServedWhenTheFloorEnds(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.set(1)
	config := quick()
	config.Interval, config.MaxInterval, config.MinInterval = time.Hour, time.Hour, 500*time.Millisecond
	c := open(t, config)
	conn := dial(t, c, f.target())
	reaches(t, conn, f.at(1))
	before := f.dns.Count(fleetName, "A")
	f.set(1, 2)
	for range 20 {
		c.ResolveNow()
	}
	reaches(t, conn, f.at(1), f.at(2))
	if got := f.dns.Count(fleetName, "A") - before; got != 1 {
		t.Errorf("got %d lookups of 20 hints inside the floor, want 1", got)
	}
}

func TestClosedChannelRefusesTargets(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	c := open(t, quick())
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := who(testContext(t), dial(t, c, f.target()))
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the channel is closed") {
		t.Errorf("got %v, want Unavailable because the channel is closed", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("got %v of the second Close, want nil", err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error("the call waited")
	}
}

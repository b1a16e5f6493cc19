// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
)

func newLeastConnections(t *testing.T, config balance.LeastConnectionsConfig) balance.Strategy {
	t.Helper()
	strategy, err := balance.NewLeastConnections(config)
	if err != nil {
		t.Fatal(err)
	}
	balance.SeedForTest(strategy, 1)
	return strategy
}

// quick is a configuration without a wait.
func quick(prober balance.Prober) balance.LeastConnectionsConfig {
	return balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter, Prober: prober}
}

var (
	errBadAnswer = errors.New("bad answer")
	addr1        = netip.MustParseAddrPort("10.0.0.1:1")
)

func TestLeastConnectionsPicksTheFewest(t *testing.T) {
	t.Parallel()
	prober := &fakeProber{servers: map[string]server{
		"a": {count: 4}, "b": {count: 2, addr: addr1}, "c": {count: 3}, "d": {err: errBadAnswer},
	}}
	selection := pick(t, newLeastConnections(t, quick(prober)), nodes("abcd"))
	if got := selection.Endpoint.Host; got != "b" {
		t.Errorf("picked %s, want b", got)
	}
	if got := selection.Endpoint.Addrs; !slices.Equal(got, []netip.AddrPort{addr1}) {
		t.Errorf("addresses %v, want the one that was probed", got)
	}
	for i, want := range []struct {
		host  string
		count int
		err   error
	}{{"a", 4, nil}, {"b", 2, nil}, {"c", 3, nil}, {"d", 0, errBadAnswer}} {
		got := selection.Observations[i]
		if got.Endpoint.Host != want.host || got.Count.Connections != want.count || !errors.Is(got.Err, want.err) {
			t.Errorf("observation %d: got %+v, want %+v", i, got, want)
		}
	}
	probed, reserved := prober.calls()
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(probed, want) {
		t.Errorf("probed %v, want %v", probed, want)
	}
	if len(reserved) != 1 || reserved[0].Host != "b" || !slices.Equal(reserved[0].Addrs, []netip.AddrPort{addr1}) {
		t.Errorf("reserved %+v, want one reservation at b on %v", reserved, addr1)
	}
	if !selection.Reservation.Made || selection.ReserveErr != nil {
		t.Errorf("got reservation %+v, %v, want one that was made", selection.Reservation, selection.ReserveErr)
	}
}

func TestLeastConnectionsWithoutAnAddressKeepsThoseOfTheCandidate(t *testing.T) {
	t.Parallel()
	candidates := nodes("ab")
	candidates[0].Addrs = []netip.AddrPort{addr1, netip.MustParseAddrPort("10.0.0.2:1")}
	prober := &fakeProber{servers: map[string]server{"b": {count: 1}}}
	selection := pick(t, newLeastConnections(t, quick(prober)), candidates)
	if got := selection.Endpoint.Addrs; !slices.Equal(got, candidates[0].Addrs) {
		t.Errorf("addresses %v, want %v: the prober told none", got, candidates[0].Addrs)
	}
}

func TestLeastConnectionsPinsABadAnswerToo(t *testing.T) {
	t.Parallel()
	prober := &fakeProber{servers: map[string]server{
		"a": {err: errBadAnswer, addr: addr1}, "b": {err: errBadAnswer, addr: addr1},
	}}
	selection := pick(t, newLeastConnections(t, quick(prober)), nodes("ab"))
	if got := selection.Endpoint.Addrs; !slices.Equal(got, []netip.AddrPort{addr1}) {
		t.Errorf("addresses %v, want the one that the probe connected on", got)
	}
}

func TestLeastConnectionsWithOneCandidate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := &fakeProber{}
		began := time.Now()
		selection := pick(t, newLeastConnections(t, balance.LeastConnectionsConfig{Prober: prober}), nodes("a"))
		if selection.Endpoint.Host != "a" || selection.Waited || selection.Observations != nil || selection.Reservation.Made {
			t.Errorf("got %+v, want the candidate and nothing else", selection)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("waited %v", took)
		}
		if probed, reserved := prober.calls(); len(probed)+len(reserved) != 0 {
			t.Errorf("probed %v and reserved %v, want neither", probed, reserved)
		}
	})
}

func TestLeastConnectionsJitter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		jitter  time.Duration
		longest time.Duration
	}{
		{"the default is 250 ms", 0, 250 * time.Millisecond},
		{"settable", 40 * time.Millisecond, 40 * time.Millisecond},
		{"switched off", balance.NoJitter, 0},
		{"any negative duration switches it off", -time.Hour, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				strategy := newLeastConnections(t, balance.LeastConnectionsConfig{MaxJitter: test.jitter, Prober: &fakeProber{ours: true}})
				const rounds = 400
				var sum, longest time.Duration
				for range rounds {
					began := time.Now()
					if selection := pick(t, strategy, nodes("ab")); !selection.Waited {
						t.Error("Waited is false")
					}
					took := time.Since(began)
					sum, longest = sum+took, max(longest, took)
				}
				if test.longest == 0 && longest != 0 || test.longest > 0 && longest >= test.longest {
					t.Errorf("waited up to %v, want less than %v", longest, test.longest)
				}
				mean, want := sum/rounds, test.longest/2
				if deviation := (mean - want).Abs(); deviation > test.longest/10 {
					t.Errorf("waited %v on average, want about %v", mean, want)
				}
			})
		})
	}
}

func TestLeastConnectionsSpreadsTies(t *testing.T) {
	t.Parallel()
	strategy := newLeastConnections(t, quick(&fakeProber{}))
	picks := map[string]int{}
	for range 600 {
		picks[pick(t, strategy, nodes("abc")).Endpoint.Host]++
	}
	for _, name := range []string{"a", "b", "c"} {
		if n := picks[name]; n < 140 || n > 260 {
			t.Errorf("%s was picked %d times of 600, want about 200", name, n)
		}
	}
}

func TestLeastConnectionsDrawsByWeightWhenNobodyAnswers(t *testing.T) {
	t.Parallel()
	failing := server{err: errBadAnswer}
	prober := &fakeProber{servers: map[string]server{"n0": failing, "n1": failing}}
	strategy := newLeastConnections(t, quick(prober))
	picks := map[string]float64{}
	const rounds = 4000
	for range rounds {
		selection := pick(t, strategy, weighted(1, 3))
		picks[selection.Endpoint.Host]++
		if !selection.Reservation.Made {
			t.Fatal("no reservation: the other Chronicle clients make one then too")
		}
	}
	if got := picks["n1"] / rounds; math.Abs(got-.75) > .04 {
		t.Errorf("n1 got %.3f of the picks, want 0.75", got)
	}
}

func TestLeastConnectionsIgnoresAnEndedContextOnlyForOneCandidate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	prober := &fakeProber{}
	strategy := newLeastConnections(t, quick(prober))
	if _, err := strategy.Select(ctx, nodes("ab")); !errors.Is(err, context.Canceled) {
		t.Errorf("two candidates: got %v, want context.Canceled", err)
	}
	if probed, _ := prober.calls(); len(probed) != 0 {
		t.Errorf("probed %v after the end of the context", probed)
	}
	if _, err := strategy.Select(ctx, nodes("a")); err != nil {
		t.Errorf("one candidate: got %v, want the candidate", err)
	}
}

func TestLeastConnectionsTellsWhyNothingWasReserved(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	prober := &fakeProber{servers: map[string]server{"a": {reserveErr: refused}, "b": {count: 1}}}
	selection := pick(t, newLeastConnections(t, quick(prober)), nodes("ab"))
	if selection.Endpoint.Host != "a" || selection.Reservation.Made || !errors.Is(selection.ReserveErr, refused) {
		t.Errorf("got %+v, want a without a reservation and the reason", selection)
	}
}

func TestLeastConnectionsConfig(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config balance.LeastConnectionsConfig
		want   []string
	}{
		{"zero", balance.LeastConnectionsConfig{}, nil},
		{"no jitter", balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter, Classic: true}, nil},
		{"the longest", balance.LeastConnectionsConfig{MaxJitter: time.Minute, Timeout: time.Minute}, nil},
		{"absurd jitter", balance.LeastConnectionsConfig{MaxJitter: time.Hour}, []string{"jitter of up to 1h0m0s"}},
		{"negative timeout", balance.LeastConnectionsConfig{Timeout: -1}, []string{"probe timeout of -1ns"}},
		{"all faults at once", balance.LeastConnectionsConfig{MaxJitter: time.Hour, Timeout: time.Hour}, []string{"jitter", "probe timeout of 1h0m0s"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			strategy, err := balance.NewLeastConnections(test.config)
			if len(test.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if err := strategy.(io.Closer).Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestLeastConnectionsClosesItsOwnProberOnly(t *testing.T) {
	t.Parallel()
	own := newLeastConnections(t, balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter})
	if err := own.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	selection := pick(t, own, nodes("ab"))
	if err := selection.Observations[0].Err; !errors.Is(err, balance.ErrProberClosed) {
		t.Errorf("own prober: got %v after Close, want ErrProberClosed", err)
	}

	given, err := balance.NewProber(balance.ProberConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = given.Close() }()
	shared := newLeastConnections(t, quick(given))
	if err := shared.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	candidates := nodes("ab")
	for i := range candidates {
		candidates[i].Addrs = []netip.AddrPort{refusing(t)}
	}
	if err := pick(t, shared, candidates).Observations[0].Err; errors.Is(err, balance.ErrProberClosed) {
		t.Error("the strategy closed a prober that is not its own")
	}
}

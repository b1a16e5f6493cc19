// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"maps"
	"strings"
	"testing"

	"google.golang.org/grpc/connectivity"

	"github.com/evenkeel-go/evenkeel/channel"
)

// newMeters has a config count.
func newMeters(config *channel.Config) *meterProvider {
	meters := &meterProvider{sums: make(map[string]float64)}
	config.MeterProvider = meters
	return meters
}

// counts returns how many endpoints of a target are in which state; states without any are not there.
func (p *meterProvider) counts(target string) map[string]float64 {
	counts := make(map[string]float64)
	for key, n := range p.all() {
		rest, is := strings.CutPrefix(key, "evenkeel.channel.endpoint.count evenkeel.endpoint.state=")
		if state, of, _ := strings.Cut(rest, ",grpc.target="); is && of == target && n != 0 {
			counts[state] = n
		}
	}
	return counts
}

// wants waits until the endpoints of a target are in these states and no other.
func (p *meterProvider) wants(t *testing.T, target string, want map[string]float64) {
	t.Helper()
	for ctx := testContext(t); !maps.Equal(p.counts(target), want); tick(t) {
		if ctx.Err() != nil {
			t.Fatalf("got endpoints %v, want %v", p.counts(target), want)
		}
	}
}

func TestOneAddressUnderTwoNamesIsTwoEndpoints(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.dns.SetAddrs(node(1), f.addr(1))
	f.dns.SetAddrs(node(2), f.addr(1))
	f.dns.SetSRV(srvName, f.record(1, 0, 0), f.record(2, 0, 0))
	config := quick()
	meters := newMeters(&config)
	conn := dial(t, open(t, config), f.srvTarget())
	reaches(t, conn, f.at(1))
	meters.wants(t, f.srvTarget(), map[string]float64{"ready": 2})
	f.dns.SetSRV(srvName, f.record(2, 0, 0))
	meters.wants(t, f.srvTarget(), map[string]float64{"ready": 1})
	tally(t, conn, 4)
	f.dns.SetSRV(srvName, f.record(2, 0, 0), f.record(1, 0, 0))
	meters.wants(t, f.srvTarget(), map[string]float64{"ready": 2})
}

func TestRollingReplacementLeavesNoEndpointBehind(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	config := quick()
	heard, meters := hear(&config), newMeters(&config)
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1))
	for i := 2; i <= 8; i++ {
		f.start(i)
		f.set(i)
		reaches(t, conn, f.at(i))
		f.stop(i - 1) // as a server does that leaves DNS first
	}
	meters.wants(t, f.target(), map[string]float64{"ready": 1})
	heard.wait(t, "SHUTDOWN as the last state of each that went", func() bool {
		for i := 1; i < 8; i++ {
			if stateOf(heard, f.at(i)) != connectivity.Shutdown {
				return false
			}
		}
		return true
	})
}

// TestCountsAddUpOverChannels also shows that only the first of two channels to a target tells its set as a change.
func TestCountsAddUpOverChannels(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	config := quick()
	heard, meters := hear(&config), newMeters(&config)
	c := open(t, config)
	first := dial(t, c, f.target())
	reaches(t, first, f.at(1), f.at(2))
	second := dial(t, c, f.target())
	reaches(t, second, f.at(1), f.at(2))
	meters.wants(t, f.target(), map[string]float64{"ready": 4})
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	meters.wants(t, f.target(), map[string]float64{"ready": 2})
	heard.resolved(t, 2)
	if got := heard.changeCount(); got != 1 {
		t.Errorf("got %d changes, want the set of the first channel alone", got)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	meters.wants(t, f.target(), map[string]float64{})
}

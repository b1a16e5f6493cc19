// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/connectivity"

	"github.com/evenkeel-go/evenkeel/channel"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

func TestEveryResolutionChangeAndStateIsTold(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.set(1, 2)
	config := quick()
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1), f.at(2))
	f.set(2, 3)
	reaches(t, conn, f.at(2), f.at(3))
	if err := f.dns.SetFault(fleetName, "", evenkeeltest.DNSFault{Code: "NOERROR"}); err != nil {
		t.Fatal(err)
	}
	heard.wait(t, "a failed resolution", func() bool {
		last := heard.resolutions[len(heard.resolutions)-1]
		return last.Class == discover.ClassNoRecords
	})
	heard.wait(t, "the end of the first endpoint", func() bool {
		return stateOf(heard, f.at(1)) == connectivity.Shutdown
	})
	heard.mu.Lock()
	defer heard.mu.Unlock()
	first, last := heard.resolutions[0], heard.resolutions[len(heard.resolutions)-1]
	if first.Target != f.target() || first.Endpoints != 2 || first.Err != nil || first.Class != "" || first.Duration <= 0 || first.At.IsZero() {
		t.Errorf("got first resolution %+v, want two endpoints of %s", first, f.target())
	}
	if last.Endpoints != 0 || last.Err == nil {
		t.Errorf("got last resolution %+v, want an error and no endpoint", last)
	}
	if len(heard.changes) != 2 {
		t.Fatalf("got changes %+v, want two", heard.changes)
	}
	for i, want := range []string{"[1 2] [] []", "[3] [1] [2]"} {
		c := heard.changes[i]
		got := fmt.Sprint(f.which(c.Added), " ", f.which(c.Removed), " ", f.which(c.Kept))
		if got != want || c.Target != f.target() || c.At.IsZero() {
			t.Errorf("got change %d: %s (%+v), want %s", i, got, c, want)
		}
	}
	if got := stateOf(heard, f.at(2)); got != connectivity.Ready {
		t.Errorf("got state %v of %s, want READY", got, f.at(2))
	}
}

// which returns the numbers of servers.
func (f *fleet) which(endpoints []discover.Endpoint) []int {
	found := []int{}
	for _, e := range endpoints {
		for i := range 10 {
			if e.Host == f.addr(i).String() && e.Port == f.port {
				found = append(found, i)
			}
		}
	}
	return found
}

// stateOf returns the last state that was told of an address.
func stateOf(heard *news, addr string) connectivity.State {
	state := connectivity.State(-1)
	for _, e := range heard.endpoints {
		if e.Addr == addr {
			state = e.State
		}
	}
	return state
}

func TestLogTellsOfChangesAndTheFirstFailure(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	var log safeBuffer
	config := quick()
	heard := hear(&config)
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1))
	f.dns.Remove(fleetName)
	heard.wait(t, "three failed lookups", func() bool {
		n := len(heard.resolutions)
		return n > 3 && heard.resolutions[n-1].Err != nil && heard.resolutions[n-2].Err != nil && heard.resolutions[n-3].Err != nil
	})
	text := log.String()
	if n := strings.Count(text, "level=WARN"); n != 1 {
		t.Errorf("got %d warnings of a row of failures, want one:\n%s", n, text)
	}
	for _, want := range []string{"endpoints changed", "added=1", "class=no_such_name", "target=" + f.target()} {
		if !strings.Contains(text, want) {
			t.Errorf("got a log without %q:\n%s", want, text)
		}
	}
}

// safeBuffer is a buffer that several may write to.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestMetricsCountResolutionsChangesAndEndpoints(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	config := quick()
	heard := hear(&config)
	meters := &meterProvider{sums: make(map[string]float64)}
	config.MeterProvider = meters
	c := open(t, config)
	conn := dial(t, c, f.target())
	reaches(t, conn, f.at(1), f.at(2))
	f.set(2)
	heard.wait(t, "the end of the first endpoint", func() bool { return stateOf(heard, f.at(1)) == connectivity.Shutdown })
	f.dns.Remove(fleetName)
	heard.wait(t, "a failed lookup", func() bool { return heard.resolutions[len(heard.resolutions)-1].Err != nil })
	target := "grpc.target=" + f.target()
	for key, want := range map[string]float64{
		"evenkeel.channel.endpoint.changes evenkeel.change=added," + target:                            2,
		"evenkeel.channel.endpoint.changes evenkeel.change=removed," + target:                          1,
		"evenkeel.channel.endpoint.count evenkeel.endpoint.state=ready," + target:                      1,
		"evenkeel.channel.endpoint.count evenkeel.endpoint.state=idle," + target:                       0,
		"evenkeel.channel.endpoint.count evenkeel.endpoint.state=connecting,grpc.target=" + f.target(): 0,
	} {
		if got := meters.sum(key); got != want {
			t.Errorf("got %v of %s, want %v; all: %v", got, key, want, meters.all())
		}
	}
	for _, key := range []string{"evenkeel.channel.resolution.duration " + target, "evenkeel.channel.resolution.duration error.type=no_such_name," + target} {
		if meters.sum(key) <= 0 {
			t.Errorf("got no time for %s; all: %v", key, meters.all())
		}
	}
	_ = conn.Close()
	if got := meters.sum("evenkeel.channel.endpoint.count evenkeel.endpoint.state=ready," + target); got != 0 {
		t.Errorf("got %v endpoints after the end, want 0", got)
	}
}

// meterProvider sums up what is recorded, by instrument and attributes.
type meterProvider struct {
	noop.MeterProvider

	mu   sync.Mutex
	sums map[string]float64
}

func (p *meterProvider) Meter(string, ...metric.MeterOption) metric.Meter { return &meter{provider: p} }

func (p *meterProvider) sum(key string) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sums[key]
}

func (p *meterProvider) all() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.sums)
}

type meter struct {
	noop.Meter

	provider *meterProvider
}

func (m *meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return &histogram{name: name, provider: m.provider}, nil
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return &counter{name: name, provider: m.provider}, nil
}

func (m *meter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return &upDown{name: name, provider: m.provider}, nil
}

func (p *meterProvider) add(name string, value float64, config interface{ Attributes() attribute.Set }) {
	set := config.Attributes()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sums[name+" "+set.Encoded(attribute.DefaultEncoder())] += value
}

type histogram struct {
	noop.Float64Histogram

	name     string
	provider *meterProvider
}

func (h *histogram) Record(_ context.Context, value float64, options ...metric.RecordOption) {
	h.provider.add(h.name, value, metric.NewRecordConfig(options))
}

type counter struct {
	noop.Int64Counter

	name     string
	provider *meterProvider
}

func (c *counter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	c.provider.add(c.name, float64(n), metric.NewAddConfig(options))
}

type upDown struct {
	noop.Int64UpDownCounter

	name     string
	provider *meterProvider
}

func (c *upDown) Add(_ context.Context, n int64, options ...metric.AddOption) {
	c.provider.add(c.name, float64(n), metric.NewAddConfig(options))
}

func TestPanicOfACallbackEndsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.set(1)
	var log safeBuffer
	config := quick()
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	config.OnResolve = func(channel.Resolution) { panic("no") }
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1))
	f.set(1, 2)
	reaches(t, conn, f.at(1), f.at(2))
	if !strings.Contains(log.String(), "callback of channel panicked") {
		t.Errorf("got a log without the panic:\n%s", log.String())
	}
}

func TestCallbackThatBlocksHoldsUpNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.set(1)
	release := make(chan struct{})
	defer close(release)
	config := quick()
	config.OnResolve = func(channel.Resolution) { <-release }
	c := open(t, config)
	conn := dial(t, c, f.target())
	reaches(t, conn, f.at(1))
	f.set(1, 2)
	reaches(t, conn, f.at(1), f.at(2))
	closesSoon(t, "the channel of grpc-go", func() { _ = conn.Close() })
	closesSoon(t, "the channel", func() { _ = c.Close() })
}

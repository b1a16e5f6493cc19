// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"context"
	"errors"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/connectivity"
)

const (
	meterName = "github.com/evenkeel-go/evenkeel/channel"

	keyTarget = attribute.Key("grpc.target")
	keyError  = attribute.Key("error.type")
	keyChange = attribute.Key("evenkeel.change")
	keyState  = attribute.Key("evenkeel.endpoint.state")
)

// metrics are the instruments of a channel.
type metrics struct {
	resolutions metric.Float64Histogram
	changes     metric.Int64Counter
	endpoints   metric.Int64UpDownCounter
}

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	meter := provider.Meter(meterName)
	resolutions, err1 := meter.Float64Histogram("evenkeel.channel.resolution.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of the lookups of a target."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5))
	changes, err2 := meter.Int64Counter("evenkeel.channel.endpoint.changes", metric.WithUnit("{endpoint}"),
		metric.WithDescription("Endpoints that were added to and removed from the set of a target."))
	endpoints, err3 := meter.Int64UpDownCounter("evenkeel.channel.endpoint.count", metric.WithUnit("{endpoint}"),
		metric.WithDescription("Endpoints of a target by their state."))
	return &metrics{resolutions, changes, endpoints}, errors.Join(err1, err2, err3)
}

func (m *metrics) resolved(r Resolution) {
	attributes := []attribute.KeyValue{keyTarget.String(r.Target)}
	if r.Class != "" {
		attributes = append(attributes, keyError.String(r.Class))
	}
	m.resolutions.Record(context.Background(), r.Duration.Seconds(), metric.WithAttributes(attributes...))
}

func (m *metrics) changed(c Change) {
	target := keyTarget.String(c.Target)
	if n := len(c.Added); n > 0 {
		m.changes.Add(context.Background(), int64(n), metric.WithAttributes(target, keyChange.String("added")))
	}
	if n := len(c.Removed); n > 0 {
		m.changes.Add(context.Background(), int64(n), metric.WithAttributes(target, keyChange.String("removed")))
	}
}

// states counts the endpoints of one target by their state.
type states struct {
	metrics *metrics
	target  string

	mu     sync.Mutex
	last   map[string]connectivity.State // guarded by mu; by address
	closed bool                          // guarded by mu
}

func newStates(m *metrics, target string) *states {
	return &states{metrics: m, target: target, last: make(map[string]connectivity.State)}
}

// set notes the state of an endpoint.
func (s *states) set(addr string, state connectivity.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if old, known := s.last[addr]; known {
		s.add(old, -1)
	}
	if state == connectivity.Shutdown {
		delete(s.last, addr)
		return
	}
	s.last[addr] = state
	s.add(state, 1)
}

// close takes all endpoints back: the resolver has ended, and the policy will say nothing more that counts.
func (s *states) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, state := range s.last {
		s.add(state, -1)
	}
	clear(s.last)
}

// add counts; the name of a state is in lower case, as OpenTelemetry wants it.
func (s *states) add(state connectivity.State, n int64) {
	s.metrics.endpoints.Add(context.Background(), n,
		metric.WithAttributes(keyTarget.String(s.target), keyState.String(strings.ToLower(state.String()))))
}

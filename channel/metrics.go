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

// states counts the endpoints of one channel of grpc-go by their state.
type states struct {
	metrics *metrics
	target  string

	mu     sync.Mutex
	counts [connectivity.Shutdown]int64 // guarded by mu; an endpoint that is shut down is none
	closed bool                         // guarded by mu
}

func newStates(m *metrics, target string) *states { return &states{metrics: m, target: target} }

// move notes that an endpoint has changed its state.
func (s *states) move(was, is connectivity.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.addLocked(was, -1)
	s.addLocked(is, 1)
}

// failing says whether any endpoint has failed.
func (s *states) failing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[connectivity.TransientFailure] > 0
}

// clear takes all endpoints back: what the policy has told no longer counts.
func (s *states) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
}

// close is the last clear.
func (s *states) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
	s.closed = true
}

func (s *states) clearLocked() {
	for state, n := range s.counts {
		if n != 0 {
			s.addLocked(connectivity.State(state), -n)
		}
	}
}

// addLocked counts; the name of a state is in lower case, as OpenTelemetry wants it.
func (s *states) addLocked(state connectivity.State, n int64) {
	if state == connectivity.Shutdown {
		return
	}
	s.counts[state] += n
	s.metrics.endpoints.Add(context.Background(), n,
		metric.WithAttributes(keyTarget.String(s.target), keyState.String(strings.ToLower(state.String()))))
}

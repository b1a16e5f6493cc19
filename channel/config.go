// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/balancer"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
	"github.com/evenkeel-go/evenkeel/discover"
)

// The policies of this package, by the names that stand in a service config.
const (
	// RoundRobin takes the ready endpoints in turn, by weight where they have weights.
	RoundRobin = policy.RoundRobin
	// Random takes any ready endpoint, by weight where they have weights.
	Random = policy.Random
	// LeastRequest takes the one of two random ready endpoints with fewer calls in flight.
	LeastRequest = policy.LeastRequest
)

// Defaults of a Config.
const (
	DefaultInterval     = 30 * time.Second
	DefaultMaxInterval  = 300 * time.Second
	DefaultMinInterval  = 5 * time.Second
	DefaultDrainTimeout = 30 * time.Second
)

// LeastInterval is the shortest of the three intervals of a Config; a shorter one is a mistake, most likely of the unit.
const LeastInterval = discover.LeastInterval

// Config says how channels find their endpoints and share calls among them. The zero value is the default in
// everything. New checks and copies it.
type Config struct {
	// Interval is the time between lookups while they succeed; 0 means DefaultInterval. The first wait is random
	// between MinInterval and Interval, later ones are up to 20 % shorter than Interval. None of the three intervals may
	// be below LeastInterval.
	Interval time.Duration
	// MaxInterval is what the wait grows to while lookups fail; 0 means DefaultMaxInterval, or Interval where that is
	// longer.
	MaxInterval time.Duration
	// MinInterval is the least time between lookups that hints ask for; 0 means DefaultMinInterval, or Interval where
	// that is shorter. While no endpoint is usable it is 1 s at most.
	MinInterval time.Duration

	// Policy is the name of the load-balancing policy; empty means RoundRobin. Any policy that is registered with
	// grpc-go will do. A loadBalancingConfig in ServiceConfig goes before it.
	Policy string
	// HealthService is the service whose health is watched at each endpoint (gRFC A17); endpoints whose server says that
	// it does not serve it get no calls. A server that has no health service at all counts as healthy, as A17 wants it:
	// the first one of a target is logged and told to OnEndpoint with ErrNoHealthService, where the policy is one of this
	// package. Empty means that health is not watched.
	HealthService string
	// DrainTimeout is how long calls that run on an endpoint may go on once it was removed; then its connection is closed.
	// 0 means DefaultDrainTimeout. Only the policies of this package heed it, also those that ServiceConfig or a service
	// config of DNS names; a drainTimeout that stands there in DNS goes before it, and in ServiceConfig is an error beside
	// it.
	DrainTimeout time.Duration
	// ServiceConfig is a service config in JSON. What it does not say is added to it: the policy, and the health check
	// where HealthService is set. A service config of DNS goes before it, field by field.
	ServiceConfig string

	// Resolver finds the endpoints of targets of the scheme evenkeel, such as "evenkeel:///servers", whatever the name.
	// Nil means that there is no such scheme. A [discover.Watcher] is watched and a [discover.Hinter] given hints; others
	// are asked at the intervals. It is not closed: that is the caller's.
	Resolver discover.Resolver

	// Logger is given resolutions, changes and states of endpoints, on the goroutine of the callbacks. Nil means none.
	Logger *slog.Logger
	// MeterProvider makes the instruments; doc.go lists them. Nil means none.
	MeterProvider metric.MeterProvider
	// OnResolve, OnChange and OnEndpoint are told of every resolution, every change of a set and every change of an
	// endpoint's state. They are called one at a time, in order, on a goroutine of their own; of more than 256 that wait
	// the oldest are left out. A panic is logged and ends nothing. Nil means that nobody wants to know. A channel of
	// grpc-go that begins with the set that the target had before, because it is another one to the target or comes back
	// from idle mode, makes no Change of it.
	OnResolve  func(Resolution)
	OnChange   func(Change)
	OnEndpoint func(EndpointState)
}

// withDefaults returns the config with every zero value replaced.
func (c Config) withDefaults() Config {
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.MaxInterval == 0 {
		c.MaxInterval = max(DefaultMaxInterval, c.Interval)
	}
	if c.MinInterval == 0 {
		c.MinInterval = min(DefaultMinInterval, c.Interval)
	}
	if c.Policy == "" {
		c.Policy = RoundRobin
	}
	if c.MeterProvider == nil {
		c.MeterProvider = noop.NewMeterProvider()
	}
	return c
}

// validate reports all that is wrong with a config that has its defaults.
func (c Config) validate() error {
	var faults []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Interval", c.Interval}, {"MaxInterval", c.MaxInterval}, {"MinInterval", c.MinInterval}, {"DrainTimeout", c.DrainTimeout},
	} {
		switch {
		case d.value < 0:
			faults = append(faults, fmt.Errorf("%s is negative: %v", d.name, d.value))
		case d.value < LeastInterval && d.name != "DrainTimeout":
			faults = append(faults, fmt.Errorf("the %s %v is below %v", d.name, d.value, LeastInterval))
		}
	}
	if c.MinInterval > c.Interval {
		faults = append(faults, fmt.Errorf("the MinInterval %v is above the Interval %v", c.MinInterval, c.Interval))
	}
	if c.Interval > c.MaxInterval {
		faults = append(faults, fmt.Errorf("the Interval %v is above the MaxInterval %v", c.Interval, c.MaxInterval))
	}
	if balancer.Get(c.Policy) == nil {
		faults = append(faults, fmt.Errorf("unknown Policy %q", c.Policy))
	}
	return errors.Join(faults...)
}

// isOurs says whether a policy is one of this package.
func isOurs(name string) bool {
	return slices.Contains([]string{RoundRobin, Random, LeastRequest}, name)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"errors"
	"fmt"
	"time"
)

// The defaults of a PollerConfig.
const (
	// DefaultInterval is how often a poller looks while nothing is wrong.
	DefaultInterval = 30 * time.Second
	// DefaultMaxInterval is how rarely a poller looks at most, however often lookups have failed.
	DefaultMaxInterval = 300 * time.Second
	// DefaultMinInterval is the least time between two lookups that hints have asked for.
	DefaultMinInterval = 5 * time.Second
	// DefaultPollTimeout is how long a poller waits for a lookup.
	DefaultPollTimeout = 10 * time.Second
	// LeastInterval is the shortest interval, maximum and floor of a poller; a shorter one is a mistake, most likely of
	// the unit.
	LeastInterval = 10 * time.Millisecond
)

// PollerConfig says what a Poller asks and how often. Resolver and OnResult are required. A default never contradicts
// what is set: where Interval is shorter than the default of MinInterval, the floor is Interval, and where it is longer
// than the default of MaxInterval, that is the maximum.
type PollerConfig struct {
	// Resolver is the source. A [Watcher] is watched instead of being asked, a [Hinter] is given the hints. The poller
	// closes a source that implements io.Closer, so that it belongs to this poller alone.
	Resolver Resolver
	// Interval is the wait between lookups, LeastInterval or more; 0 means DefaultInterval.
	Interval time.Duration
	// MaxInterval is what the wait doubles up to while lookups fail; not below Interval; 0 means DefaultMaxInterval.
	MaxInterval time.Duration
	// MinInterval is the floor: the least time from the beginning of a lookup to that of one that a hint asked for; from
	// LeastInterval to Interval; 0 means DefaultMinInterval.
	MinInterval time.Duration
	// Timeout ends a lookup, and what has not returned by then has failed; 0 means DefaultPollTimeout.
	Timeout time.Duration
	// OnResult is called with the result of each lookup, and with each change of a source that pushes. Calls come one at
	// a time from the goroutine of the poller, which does nothing else meanwhile: it should not block for long. It may
	// call the methods of the poller.
	OnResult func(PollResult)
}

// withDefaults returns the configuration with its zero values filled in. That makes no fault of none, and hides none: a
// floor above the default interval, or a maximum below it, stays one.
func (c PollerConfig) withDefaults() PollerConfig {
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.MaxInterval == 0 {
		c.MaxInterval = max(DefaultMaxInterval, c.Interval)
	}
	if c.MinInterval == 0 {
		c.MinInterval = min(DefaultMinInterval, c.Interval)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultPollTimeout
	}
	return c
}

// Validate reports all faults of the configuration, joined.
func (c PollerConfig) Validate() error {
	var errs []error
	if c.Resolver == nil {
		errs = append(errs, errors.New("discover: a poller needs a resolver"))
	}
	if c.OnResult == nil {
		errs = append(errs, errors.New("discover: a poller needs somebody who takes its results"))
	}
	return errors.Join(append(errs, c.validateWaits()...)...)
}

func (c PollerConfig) validateWaits() []error {
	var errs []error
	for _, wait := range []struct {
		name  string
		given time.Duration
	}{{"Interval", c.Interval}, {"MaxInterval", c.MaxInterval}, {"MinInterval", c.MinInterval}, {"Timeout", c.Timeout}} {
		if wait.given < 0 {
			errs = append(errs, fmt.Errorf("discover: the %s of a poller is negative", wait.name))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	full := c.withDefaults()
	for _, wait := range []struct {
		name  string
		given time.Duration
	}{{"Interval", full.Interval}, {"MaxInterval", full.MaxInterval}, {"MinInterval", full.MinInterval}} {
		if wait.given < LeastInterval {
			errs = append(errs, fmt.Errorf("discover: the %s %v of a poller is shorter than %v", wait.name, wait.given, LeastInterval))
		}
	}
	if full.MinInterval > full.Interval {
		errs = append(errs, fmt.Errorf("discover: the MinInterval %v of a poller is longer than its Interval %v", full.MinInterval, full.Interval))
	}
	if full.Interval > full.MaxInterval {
		errs = append(errs, fmt.Errorf("discover: the Interval %v of a poller is longer than its MaxInterval %v", full.Interval, full.MaxInterval))
	}
	return errs
}

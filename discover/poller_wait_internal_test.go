// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var usual = pace{interval: 30 * time.Second, maxInterval: 300 * time.Second, minInterval: 5 * time.Second}

func TestWaits(t *testing.T) {
	t.Parallel()
	const most = 0.999999999999
	for _, test := range []struct {
		name string
		got  time.Duration
		want time.Duration
	}{
		{"the first wait is the floor at least", usual.first(0), 5 * time.Second},
		{"the first wait is the interval at most", usual.first(most), 30 * time.Second},
		{"the first wait lies between", usual.first(0.5), 17500 * time.Millisecond},
		{"a wait without jitter", usual.regular(0, 0), 30 * time.Second},
		{"a wait is a fifth shorter at most", usual.regular(0, most), 24 * time.Second},
		{"one failure doubles", usual.regular(1, 0), 60 * time.Second},
		{"two failures double twice", usual.regular(2, 0), 120 * time.Second},
		{"three", usual.regular(3, 0), 240 * time.Second},
		{"the maximum caps", usual.regular(4, 0), 300 * time.Second},
		{"jitter shortens the maximum too", usual.regular(4, most), 240 * time.Second},
		{"however many failures", usual.regular(math.MaxInt32, 0), 300 * time.Second},
		{"the first repeat while nothing is usable", usual.repeat(1, 0), time.Second},
		{"is never below the floor of a second", usual.repeat(1, most), time.Second},
		{"the second", usual.repeat(2, 0), 2 * time.Second},
		{"jitter shortens it", usual.repeat(2, most), 1600 * time.Millisecond},
		{"the ninth is below the maximum", usual.repeat(9, 0), 256 * time.Second},
		{"the tenth is the maximum", usual.repeat(10, 0), 300 * time.Second},
		{"the floor", usual.floor(false), 5 * time.Second},
		{"the floor while nothing is usable", usual.floor(true), time.Second},
		{"a shorter floor stays", pace{interval: time.Second, minInterval: 100 * time.Millisecond}.floor(true), 100 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := test.got - test.want; diff.Abs() > time.Microsecond {
				t.Errorf("got %v, want %v", test.got, test.want)
			}
		})
	}
}

// clock is a schedule in a story that is told in seconds.
type clock struct {
	*testing.T
	s     *schedule
	start time.Time
}

func newClock(t *testing.T) clock {
	t.Helper()
	return clock{t, &schedule{pace: usual}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func (c clock) at(seconds float64) time.Time {
	return c.start.Add(time.Duration(seconds * float64(time.Second)))
}

func (c clock) looked(began, ended float64, found bool) {
	c.s.begin(c.at(began))
	if found {
		c.s.succeed(c.at(ended), 0)
	} else {
		c.s.fail(c.at(ended), 0)
	}
}

func (c clock) next(want float64) {
	c.Helper()
	if got := c.s.next().Sub(c.start).Seconds(); math.Abs(got-want) > 1e-6 {
		c.Errorf("next lookup at %v s, want %v s", got, want)
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		tell func(c clock)
	}{
		{"the first lookup is at once", func(c clock) {
			if !c.s.next().IsZero() {
				c.Errorf("next lookup at %v, want the zero time", c.s.next())
			}
		}},
		{"a wait is counted from the end", func(c clock) {
			c.looked(0, 2, true)
			c.next(7) // the first wait without luck is the floor
			c.looked(7, 9, true)
			c.next(39)
		}},
		{"without any set the first failure is repeated after a second", func(c clock) {
			c.looked(0, 0, false)
			c.next(1)
			c.looked(1, 1, false)
			c.next(3)
			c.looked(3, 3, false)
			c.next(7)
		}},
		{"with a set failures double the interval", func(c clock) {
			c.looked(0, 0, true)
			c.looked(5, 5, false)
			c.next(65)
			c.looked(65, 65, false)
			c.next(185)
		}},
		{"a success resets", func(c clock) {
			c.looked(0, 0, true)
			c.looked(5, 5, false)
			c.looked(65, 65, false)
			c.looked(185, 185, true)
			c.next(215)
			c.looked(215, 215, false)
			c.next(275)
		}},
		{"a hint waits for the floor, from the beginning of the last lookup", func(c clock) {
			c.looked(0, 0, true)
			c.looked(5, 6, true)
			c.s.hint()
			c.next(10)
		}},
		{"a hint behind the floor is served at once", func(c clock) {
			c.looked(0, 0, true)
			c.looked(5, 5, true)
			c.s.hint()
			c.s.hint()
			c.next(10) // which has passed when it is looked at later
		}},
		{"a lookup serves the hints before it", func(c clock) {
			c.looked(0, 0, true)
			c.s.hint()
			c.looked(5, 5, true)
			c.next(35)
		}},
		{"a hint during a lookup asks for another one", func(c clock) {
			c.looked(0, 0, true)
			c.s.begin(c.at(5))
			c.s.hint()
			c.s.succeed(c.at(6), 0)
			c.next(10)
		}},
		{"a hint never puts a lookup off", func(c clock) {
			c.looked(0, 0, true)
			c.s.hint()
			c.next(5)
		}},
		{"the loss of the last endpoint asks within a second", func(c clock) {
			c.looked(0, 0, true)
			c.looked(5, 5, true)
			c.s.setUsable(false)
			c.next(6)
		}},
		{"only the loss asks, not each word of it", func(c clock) {
			c.looked(0, 0, true)
			c.s.setUsable(false)
			c.looked(1, 1, true)
			c.s.setUsable(false)
			c.next(31)
		}},
		{"with nothing usable the backoff begins anew", func(c clock) {
			c.looked(0, 0, true)
			c.looked(5, 5, false)
			c.looked(65, 65, false)
			c.s.setUsable(false)
			c.next(66)
			c.looked(70, 70, false)
			c.next(71)
			c.looked(71, 71, false)
			c.next(73)
			c.s.hint()
			c.next(72)
		}},
		{"when something is usable again the regular backoff goes on", func(c clock) {
			c.looked(0, 0, true)
			c.s.setUsable(false)
			c.looked(1, 1, false)
			c.next(2)
			c.s.setUsable(true)
			c.next(61)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.tell(newClock(t))
		})
	}
}

// A model of what a schedule promises, checked over any sequence of events.
func TestSchedulePromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "interval"))
		p := pace{
			interval:    interval,
			minInterval: time.Duration(rapid.Int64Range(1, int64(interval)).Draw(t, "floor")),
			maxInterval: time.Duration(rapid.Int64Range(int64(interval), int64(1000*time.Hour)).Draw(t, "maximum")),
		}
		s := &schedule{pace: p}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		s.begin(now)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			random := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				s.hint()
			case 1:
				s.setUsable(rapid.Bool().Draw(t, "usable"))
			case 2:
				s.succeed(now, random)
				if wait := s.due.Sub(now); wait < min(p.minInterval, interval*4/5)-1 || wait > interval {
					t.Fatalf("a wait of %v after a success, interval %v", wait, interval)
				}
			case 3:
				s.fail(now, random)
				if wait := s.due.Sub(now); wait < interval*4/5-1 || wait > p.maxInterval {
					t.Fatalf("a wait of %v after a failure, interval %v, maximum %v", wait, interval, p.maxInterval)
				}
			default:
				now = later(now, s.next())
				s.begin(now)
				if s.hinted {
					t.Fatal("a lookup has not served the hints")
				}
				s.succeed(now, random)
			}
			floor := s.began.Add(p.floor(s.urgent()))
			if s.due.IsZero() {
				continue // the first lookup is under way
			}
			if next := s.next(); s.hinted && next.After(later(floor, s.began)) {
				t.Fatalf("a hint is served at %v, behind the floor %v", next, floor)
			} else if next.After(s.due) {
				t.Fatalf("a lookup at %v, behind the regular one at %v", next, s.due)
			} else if next.Before(earlier(s.due, floor)) && s.dueSoon.IsZero() {
				t.Fatalf("a lookup at %v, before both the regular one at %v and the floor %v", next, s.due, floor)
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(interval)).Draw(t, "pause")))
		}
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

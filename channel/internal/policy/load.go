// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// load counts the calls of one endpoint. It outlives pickers and connections. It is safe for concurrent use.
type load struct {
	_        [64]byte // other endpoints' counters are on other cache lines
	inflight atomic.Int64
	failures atomic.Uint64 // a failures value; 0 nearly always, so that a pick reads no clock
	_        [64]byte

	began time.Time
	done  func(balancer.DoneInfo) // the one function for all calls, so that a pick allocates nothing
}

func newLoad() *load {
	l := &load{began: time.Now()}
	l.done = l.end
	return l
}

// begin counts a call that done takes off again.
func (l *load) begin() { l.inflight.Add(1) }

// end is called when a call or stream has ended.
func (l *load) end(info balancer.DoneInfo) {
	l.inflight.Add(-1)
	if info.Err == nil || !isFault(info.Err) {
		return
	}
	for tick := l.tick(); ; {
		old := l.failures.Load()
		if l.failures.CompareAndSwap(old, uint64(failures(old).at(tick).plusOne())) {
			return
		}
	}
}

// value is the number of calls in flight, and of those that have failed within the last second.
func (l *load) value() int64 {
	n := l.inflight.Load()
	old := l.failures.Load()
	if old == 0 {
		return n
	}
	recent := failures(old).at(l.tick())
	if recent.sum() == 0 {
		l.failures.CompareAndSwap(old, 0)
	}
	return n + recent.sum()
}

func (l *load) tick() uint64 { return uint64(time.Since(l.began)/failureTick) & tickMask }

// isFault says whether an error tells of a server in trouble. The others are answers, or the caller's own doing.
func isFault(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted, codes.Internal, codes.Unknown, codes.Unimplemented, codes.DataLoss:
		return true
	default:
		return false
	}
}

// failures counts failed calls in the last ticks: the upper 24 bits are the number of the newest tick, below are five
// counters of 8 bits that stop at 255, the newest lowest. So a failure counts for 1 to 1.25 s.
type failures uint64

const (
	failureTick  = 250 * time.Millisecond
	failureTicks = 5
	counterBits  = 8
	counterMask  = 1<<counterBits - 1
	countersBits = failureTicks * counterBits
	countersMask = 1<<countersBits - 1
	tickMask     = 1<<(64-countersBits) - 1
)

// at returns what is left at a tick.
func (f failures) at(tick uint64) failures {
	passed := (tick - uint64(f)>>countersBits) & tickMask
	if f&countersMask != 0 && passed > tickMask-failureTicks {
		return f // another goroutine has read the clock later and was faster
	}
	counters := uint64(0)
	if passed < failureTicks {
		counters = uint64(f) << (passed * counterBits) & countersMask
	}
	return failures(tick<<countersBits | counters)
}

func (f failures) plusOne() failures {
	if f&counterMask == counterMask {
		return f
	}
	return f + 1
}

func (f failures) sum() int64 {
	total := int64(0)
	for f &= countersMask; f != 0; f >>= counterBits {
		total += int64(f & counterMask)
	}
	return total
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"time"

	"google.golang.org/grpc/connectivity"
)

const (
	failover = 10 * time.Second // for which a level may try to connect before the next one is dialled
	parking  = 15 * time.Minute // for which connections are kept that a better level has made superfluous
)

// level is the endpoints of one priority. All fields are guarded by the policy's mutex.
type level struct {
	priority uint16
	children []*child
	ready    int
	failed   int
	awake    bool // its endpoints are dialled, and dialled again when they are lost
	overdue  bool // it has had its time to connect
	timer    *time.Timer
	stale    bool // the picker does not show what has changed
}

// count moves an endpoint from one state to another.
func (l *level) count(was, is connectivity.State) {
	l.tally(was, -1)
	l.tally(is, 1)
}

func (l *level) tally(state connectivity.State, n int) {
	switch state {
	case connectivity.Ready:
		l.ready += n
	case connectivity.TransientFailure:
		l.failed += n
	default:
	}
}

// hasFailed says that no endpoint is ready or may soon be.
func (l *level) hasFailed() bool { return l.failed == len(l.children) }

// settled says that worse levels are not needed.
func (l *level) settled() bool { return l.ready > 0 || !l.hasFailed() && !l.overdue }

// stopTimer forgets the timer; one that has fired already finds that it is not the level's.
func (l *level) stopTimer() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// syncLevelsLocked has every level dialled down to the first that is settled, and the worse ones parked.
func (p *policy) syncLevelsLocked() {
	needed := true
	for i, l := range p.levels {
		if !needed {
			p.parkLocked(l)
			continue
		}
		p.wakeLocked(l)
		if l.ready > 0 {
			l.overdue = false
		}
		needed = !l.settled()
		if l.ready > 0 || l.hasFailed() || l.overdue || i == len(p.levels)-1 {
			l.stopTimer()
			continue
		}
		if l.timer == nil {
			p.timeLocked(l, failover, func() { l.overdue = true })
		}
	}
}

// timeLocked has f run later with the mutex held, and everything put right after it.
func (p *policy) timeLocked(l *level, after time.Duration, f func()) {
	var timer *time.Timer
	timer = time.AfterFunc(after, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closed || l.timer != timer {
			return
		}
		l.timer = nil
		f()
		p.settleLocked(false)
	})
	l.timer = timer
}

func (p *policy) wakeLocked(l *level) {
	if l.awake {
		return
	}
	l.awake = true
	l.stopTimer()
	for _, c := range l.children {
		if c.conn == nil {
			p.startLocked(c)
		}
	}
}

// parkLocked gives up what a level has begun and keeps what it has, so that it can stand in at once.
func (p *policy) parkLocked(l *level) {
	if !l.awake {
		return
	}
	l.awake, l.overdue = false, false
	l.stopTimer()
	for _, c := range l.children {
		if c.conn != nil && c.link == nil {
			p.sleepLocked(c)
		}
	}
	if l.ready > 0 {
		p.timeLocked(l, parking, func() { p.releaseLocked(l) })
	}
}

// releaseLocked gives up the connections of a level that has been parked for long. Calls that are left end by themselves.
func (p *policy) releaseLocked(l *level) {
	if p.shown.level == l {
		// It is the one in rotation after all: a better one has lost its connections and is given time.
		p.timeLocked(l, parking, func() { p.releaseLocked(l) })
		return
	}
	for _, c := range l.children {
		p.sleepLocked(c)
	}
}

func (p *policy) sleepLocked(c *child) {
	p.stopLocked(c)
	p.setStateLocked(c, connectivity.Idle, nil)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"sync"
	"time"
)

// watch lets the source tell its changes, and starts it again when it has ended.
func (l *pollLoop) watch(ctx context.Context, source Watcher) {
	w := &watching{source: source, news: make(chan struct{}, 1), ended: make(chan lookup, 1)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			l.hear()
		case <-w.news:
			l.push(ctx, w.latest())
		case end := <-w.ended:
			if l.stopped(ctx, w, end) {
				<-ctx.Done()
				return
			}
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return
		}
		timer.Reset(l.actWatching(ctx, w))
	}
}

// farAhead is when there is nothing to do.
const farAhead = 24 * time.Hour

// actWatching starts the source or hands a hint on when it is time, and returns how long there is nothing to do then.
func (l *pollLoop) actWatching(ctx context.Context, w *watching) time.Duration {
	now := time.Now()
	due := now.Add(farAhead)
	if !w.running {
		due = w.restart
	}
	if l.schedule.hinted {
		due = earlier(due, l.schedule.began.Add(l.schedule.floor(l.schedule.urgent())))
	}
	if due.After(now) {
		return due.Sub(now)
	}
	l.schedule.begin(now)
	if !w.running {
		w.running = true
		l.hung.Go(func() { w.run(ctx) })
	} else if hinter, ok := w.source.(Hinter); ok && w.hinting.TryLock() {
		l.hung.Go(func() { w.hint(hinter) })
	}
	return farAhead
}

// push tells what the source has told, if anything.
func (l *pollLoop) push(ctx context.Context, result *lookup) {
	if result == nil || ctx.Err() != nil {
		return
	}
	now := time.Now()
	if l.note(now, *result) {
		l.schedule.succeed(now, l.random())
	} else {
		l.schedule.fail(now, l.random())
	}
	l.tell(l.pending)
}

// stopped takes the end of a Watch and says whether it is for good.
func (l *pollLoop) stopped(ctx context.Context, w *watching, end lookup) bool {
	w.running = false
	l.push(ctx, w.latest())
	l.push(ctx, &end)
	w.restart = time.Now().Add(l.schedule.repeat(l.failures, l.random()))
	return end.closed
}

// watching is a source that pushes.
type watching struct {
	source  Watcher
	news    chan struct{} // of one: told has been set
	ended   chan lookup   // of one: Watch has returned, with an error and no endpoints
	running bool          // used by the loop alone
	restart time.Time     // used by the loop alone: when to start it again
	hinting sync.Mutex    // held while a hint is being handed on

	mu   sync.Mutex
	told *lookup // guarded by mu: the latest, nil when the loop has it
}

// run watches the source until it ends, in whatever way. It is the edge at which a panic of the source is caught.
func (w *watching) run(ctx context.Context) {
	end := lookup{err: errExited, class: ClassOther}
	defer func() { w.ended <- end }()
	err := caught(func() error { return w.source.Watch(ctx, w.change) })
	if err == nil {
		err = errWatchEnded
	}
	end = lookup{err: err}
	end.read()
}

// hint hands a hint on; the source promises nothing, and may block where it should not.
func (w *watching) hint(hinter Hinter) {
	defer w.hinting.Unlock()
	_ = caught(func() error {
		hinter.ResolveNow()
		return nil
	})
}

var errWatchEnded = errors.New("the source has stopped to tell of changes")

// change keeps what the source tells until the loop takes it.
func (w *watching) change(endpoints []Endpoint, err error) {
	told := &lookup{endpoints: endpoints, err: err}
	told.read()
	w.mu.Lock()
	w.told = told
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default: // the loop has not yet seen the last one
	}
}

func (w *watching) latest() *lookup {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.told
	w.told = nil
	return told
}

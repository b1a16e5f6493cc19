// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// queueSize bounds the news that wait for a slow callback or logger.
const queueSize = 256

// observer gives the user's logger and callbacks what there is to tell, one at a time and in order, on one goroutine. A
// slow one loses the oldest news; it never holds up a lookup, a policy or the end of a channel.
type observer struct {
	config  Config
	handler slog.Handler  // nil when there is no logger
	wake    chan struct{} // holds one token while there is something to do
	done    chan struct{} // closed when run has ended

	mu      sync.Mutex
	queue   []piece // guarded by mu
	dropped int     // guarded by mu; since the last one that was delivered
	closed  bool    // guarded by mu
}

// piece is one of the news: a record for the logger, and what to call.
type piece struct {
	record slog.Record
	call   func() // nil when no callback wants to know
}

// detail says that it is of use to nobody but a logger of details.
func (p piece) detail() bool { return p.call == nil && p.record.Level < slog.LevelInfo }

// newObserver returns nil when there are neither callbacks nor a logger; the methods of a nil observer do nothing.
func newObserver(config Config) *observer {
	if config.OnResolve == nil && config.OnChange == nil && config.OnEndpoint == nil && config.Logger == nil {
		return nil
	}
	o := &observer{config: config, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if config.Logger != nil {
		o.handler = config.Logger.Handler()
	}
	go o.run()
	return o
}

// log tells the logger alone.
func (o *observer) log(record slog.Record) { o.put(piece{record: record}) }

func (o *observer) resolved(r Resolution, record slog.Record) {
	told := piece{record: record}
	if o != nil && o.config.OnResolve != nil {
		told.call = func() { o.config.OnResolve(r) }
	}
	o.put(told)
}

func (o *observer) changed(c Change, record slog.Record) {
	told := piece{record: record}
	if o != nil && o.config.OnChange != nil {
		told.call = func() { o.config.OnChange(c) }
	}
	o.put(told)
}

func (o *observer) endpoint(e EndpointState, record slog.Record) {
	told := piece{record: record}
	if o != nil && o.config.OnEndpoint != nil {
		told.call = func() { o.config.OnEndpoint(e) }
	}
	o.put(told)
}

// put adds news. It never blocks. Details may take half of the queue, and drive nothing else out.
func (o *observer) put(told piece) {
	if o == nil || told.call == nil && o.handler == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || told.detail() && len(o.queue) >= queueSize/2 {
		return
	}
	if len(o.queue) == queueSize {
		copy(o.queue, o.queue[1:])
		o.queue = o.queue[:queueSize-1]
		o.dropped++
	}
	o.queue = append(o.queue, told)
	o.signal()
}

// close takes no more news, drops what waits and returns when nothing of the user runs.
func (o *observer) close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.closed, o.queue = true, nil
	o.mu.Unlock()
	o.signal()
	<-o.done
}

func (o *observer) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run delivers until the end. A callback that calls runtime.Goexit ends the goroutine and not the news.
func (o *observer) run() {
	ended := false
	defer func() {
		if ended {
			close(o.done)
			return
		}
		o.signal()
		go o.run()
	}()
	for range o.wake {
		for {
			told, dropped, more := o.next()
			if dropped > 0 {
				o.write(newRecord(slog.LevelWarn, "callback or logger of channel is slow: news were left out", slog.Int("count", dropped)))
			}
			if told != nil {
				o.deliver(*told)
				continue
			}
			if ended = !more; ended {
				return
			}
			break
		}
	}
}

// next returns the oldest of the news, nil when none waits; how many were left out; and whether there may be more.
func (o *observer) next() (told *piece, dropped int, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	dropped, o.dropped = o.dropped, 0
	if len(o.queue) == 0 {
		return nil, dropped, !o.closed
	}
	told = &o.queue[0]
	o.queue = o.queue[1:]
	return told, dropped, true
}

// deliver keeps a panic of the callback from ending the process.
func (o *observer) deliver(told piece) {
	defer func() {
		if p := recover(); p != nil {
			o.write(newRecord(slog.LevelError, "callback of channel panicked", slog.Any("panic", p)))
		}
	}()
	o.write(told.record)
	if told.call != nil {
		told.call()
	}
}

// write gives the logger a record. A panic of the logger has nowhere to go.
func (o *observer) write(record slog.Record) {
	if o.handler == nil || record.Message == "" {
		return
	}
	defer func() { _ = recover() }()
	if ctx := context.Background(); o.handler.Enabled(ctx, record.Level) {
		_ = o.handler.Handle(ctx, record) // as a Logger does it
	}
}

// newRecord makes a record of now and of the caller of its caller.
func newRecord(level slog.Level, message string, attributes ...slog.Attr) slog.Record {
	const skipped = 3 // runtime.Callers, this function and its caller
	var callers [1]uintptr
	runtime.Callers(skipped, callers[:])
	record := slog.NewRecord(time.Now(), level, message, callers[0])
	record.AddAttrs(attributes...)
	return record
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"log/slog"
	"sync"
)

// queueSize bounds the news that wait for a slow callback.
const queueSize = 256

// observer calls the user's callbacks, one at a time and in order, on one goroutine. A slow callback loses the oldest
// news; it never holds up a lookup or a policy.
type observer struct {
	config Config
	logger *slog.Logger
	wake   chan struct{} // holds one token while there is something to do
	done   chan struct{} // closed when run has ended

	mu      sync.Mutex
	queue   []func() // guarded by mu
	dropped int      // guarded by mu; since the last one that was called
	closed  bool     // guarded by mu
}

// newObserver returns nil when there are no callbacks; the methods of a nil observer do nothing.
func newObserver(config Config) *observer {
	if config.OnResolve == nil && config.OnChange == nil && config.OnEndpoint == nil {
		return nil
	}
	o := &observer{config: config, logger: config.Logger, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go o.run()
	return o
}

func (o *observer) resolved(r Resolution) {
	if o != nil && o.config.OnResolve != nil {
		o.put(func() { o.config.OnResolve(r) })
	}
}

func (o *observer) changed(c Change) {
	if o != nil && o.config.OnChange != nil {
		o.put(func() { o.config.OnChange(c) })
	}
}

func (o *observer) endpoint(e EndpointState) {
	if o != nil && o.config.OnEndpoint != nil {
		o.put(func() { o.config.OnEndpoint(e) })
	}
}

// put adds news. It never blocks.
func (o *observer) put(call func()) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	if len(o.queue) == queueSize {
		copy(o.queue, o.queue[1:])
		o.queue = o.queue[:queueSize-1]
		o.dropped++
	}
	o.queue = append(o.queue, call)
	o.mu.Unlock()
	o.signal()
}

// close takes no more news, drops what waits and returns when no callback runs.
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

func (o *observer) run() {
	defer close(o.done)
	for range o.wake {
		for {
			call, ended := o.next()
			if ended {
				return
			}
			if call == nil {
				break
			}
			o.deliver(call)
		}
	}
}

func (o *observer) next() (call func(), ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped > 0 {
		o.logger.Warn("callback of channel is slow: news were left out", "count", o.dropped)
		o.dropped = 0
	}
	if len(o.queue) == 0 {
		return nil, o.closed
	}
	call = o.queue[0]
	o.queue = o.queue[1:]
	return call, false
}

// deliver keeps a panic of the callback from ending the process.
func (o *observer) deliver(call func()) {
	defer func() {
		if p := recover(); p != nil {
			o.logger.Error("callback of channel panicked", "panic", p)
		}
	}()
	call()
}

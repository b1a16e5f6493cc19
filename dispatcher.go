// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"fmt"
	"sync"
	"time"
)

// eventQueueSize bounds the events that wait for a slow callback.
const eventQueueSize = 256

// dispatcher hands events to the user's callback, in order, on one goroutine. A slow callback loses the oldest events
// and is told how many; it never holds up the connection.
type dispatcher struct {
	callback func(Event)
	wake     chan struct{} // holds one token while there is something to do
	done     chan struct{} // closed when the last event was handed over

	mu      sync.Mutex
	queue   []Event
	dropped int // events lost since the last one that was handed over
	closed  bool
}

func newDispatcher(callback func(Event)) *dispatcher {
	d := &dispatcher{callback: callback, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go d.run()
	return d
}

// put adds an event. It never blocks.
func (d *dispatcher) put(e Event) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return
	}
	if len(d.queue) == eventQueueSize {
		copy(d.queue, d.queue[1:])
		d.queue = d.queue[:eventQueueSize-1]
		d.dropped++
	}
	d.queue = append(d.queue, e)
	d.mu.Unlock()
	d.signal()
}

// end takes no more events; the ones in the queue are still handed over.
func (d *dispatcher) end() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.signal()
}

// ended is closed when the last event was handed over; that of a nil dispatcher is.
func (d *dispatcher) ended() <-chan struct{} {
	if d == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return d.done
}

func (d *dispatcher) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// run hands the events over. A callback that ends the goroutine (runtime.Goexit) has ended this one only.
func (d *dispatcher) run() {
	over := false
	defer func() {
		if !over {
			d.signal() // there may be more
			go d.run()
			return
		}
		close(d.done)
	}()
	for range d.wake {
		for {
			e, ok, ended := d.next()
			if ok {
				d.deliver(e)
				continue
			}
			if ended {
				over = true
				return
			}
			break
		}
	}
}

func (d *dispatcher) next() (e Event, ok, ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		return Event{}, false, d.closed
	}
	e = d.queue[0]
	d.queue = d.queue[1:]
	e.Dropped, d.dropped = d.dropped, 0
	return e, true, false
}

// deliver calls the callback. Its panic becomes an event of its own, handed over at once; a panic in that one is the
// end of the matter.
func (d *dispatcher) deliver(e Event) {
	defer func() {
		p := recover()
		if p == nil || e.Kind == EventPanicked {
			return
		}
		d.deliver(Event{
			Time: time.Now(), Kind: EventPanicked, Generation: e.Generation,
			Err: fmt.Errorf("event callback panicked at %q: %v", e.Kind, p),
		})
	}()
	d.callback(e)
}

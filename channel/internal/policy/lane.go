// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import "sync"

// lane runs functions one after another, in the order in which they came, on a goroutine that exists only while there
// are any. The zero value is ready. It is safe for concurrent use.
type lane struct {
	running sync.WaitGroup

	mu     sync.Mutex
	queue  []func()
	busy   bool // a goroutine takes from queue
	closed bool
}

// do has f run later; after close it does nothing. It does not wait, so it may be called with any lock held that f or a
// function before it does not wait for while its caller waits for close.
func (l *lane) do(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.queue = append(l.queue, f)
	if !l.busy {
		l.busy = true
		l.running.Add(1)
		go l.run()
	}
}

func (l *lane) run() {
	defer l.running.Done()
	for {
		l.mu.Lock()
		batch := l.queue
		l.queue = nil
		if len(batch) == 0 {
			l.busy = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		for _, f := range batch {
			if l.isClosed() {
				break
			}
			f()
		}
	}
}

func (l *lane) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// close drops what has not begun and waits for what has. It is idempotent.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.queue = nil
	l.mu.Unlock()
	l.running.Wait()
}

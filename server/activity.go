// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"sync/atomic"
)

// activity counts what a drain waits for: calls and requests of the application, and connections that have carried a
// session. newActivity makes one. It is safe for concurrent use, and counting takes no lock.
type activity struct {
	running atomic.Int64
	watched atomic.Bool
	quiet   chan struct{} // holds one token: the number was zero after the wait began
}

func newActivity() *activity { return &activity{quiet: make(chan struct{}, 1)} }

func (a *activity) enter() { a.running.Add(1) }

// leave undoes enter. It lowers the number first and looks for a waiter then, a waiter does it in the other order: so one
// of them sees the other.
func (a *activity) leave() {
	if a.running.Add(-1) == 0 && a.watched.Load() {
		select {
		case a.quiet <- struct{}{}:
		default:
		}
	}
}

// wait returns nil at a moment when nothing is running, or the cause of ctx.
func (a *activity) wait(ctx context.Context) error {
	a.watched.Store(true)
	for a.running.Load() > 0 {
		select {
		case <-a.quiet:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
)

// maxCalls is how many application calls share a connection. Stock servers allow 100 streams on one; the session's own
// need room beside them, and a call beyond the server's limit would hang without a word.
const (
	maxCalls  = 64
	mostCalls = 90 // where no further connection can be had
)

// lane is one connection of a generation and how many application calls are open on it.
type lane struct {
	calls     grpc.ClientConnInterface // the transport's connection; a stub in benchmarks
	transport *transport
	open      atomic.Int64
}

// tryEnter counts one more call, unless the lane has as many as it may.
func (l *lane) tryEnter(limit int64) bool {
	if l.open.Add(1) <= limit {
		return true
	}
	l.open.Add(-1)
	return false
}

// broken is why the connection broke; nil while it works.
func (l *lane) broken() error {
	if l.transport == nil {
		return nil
	}
	return l.transport.broke()
}

// flight is a further connection that is being made, for all calls that wait for one.
type flight struct {
	done chan struct{} // closed when err is set
	err  error
}

// enter finds a connection for a call: the first that is not full, else a new one. The caller must leave it. Whoever seals
// the generation looks for open calls after that: it sees this one, or this one sees the seal and gets errGone.
func (g *generation) enter(ctx context.Context) (*lane, error) {
	l, err := g.findLane(ctx)
	if err == nil && g.sealed.Load() {
		g.leave(l)
		return nil, errGone
	}
	return l, err
}

func (g *generation) findLane(ctx context.Context) (*lane, error) {
	for !g.sealed.Load() {
		lanes := *g.lanes.Load()
		if l := firstWithRoom(lanes, maxCalls); l != nil {
			return l, nil
		}
		f := g.expand(len(lanes))
		if f == nil {
			continue // there is a new lane already
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, contextError(ctx)
		}
		if f.err == nil {
			continue
		}
		if g.cause() != nil {
			return nil, errGone
		}
		if l := firstWithRoom(*g.lanes.Load(), mostCalls); l != nil {
			return l, nil
		}
		return nil, unavailable("no further connection to "+g.endpoint.Addr(), f.err)
	}
	return nil, errGone
}

// firstWithRoom enters the first lane that has fewer than limit calls; nil when there is none.
func firstWithRoom(lanes []*lane, limit int64) *lane {
	for _, l := range lanes {
		if l.tryEnter(limit) {
			return l
		}
	}
	return nil
}

// leave ends what enter began.
func (g *generation) leave(l *lane) {
	if l.open.Add(-1) == 0 && g.sealed.Load() {
		put(g.idle)
	}
}

// openCalls is how many application calls are open.
func (g *generation) openCalls() int64 {
	var open int64
	for _, l := range *g.lanes.Load() {
		open += l.open.Load()
	}
	return open
}

// expand makes one more connection, unless one is being made or the lanes are no longer the full ones that the caller
// saw. It returns nil in the latter case.
func (g *generation) expand(seen int) *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(*g.lanes.Load()) != seen {
		return nil
	}
	if g.flight == nil {
		f := &flight{done: make(chan struct{})}
		if g.life.Err() != nil { // closed: nothing may be started any more
			f.err = g.cause()
			close(f.done)
			return f
		}
		g.flight = f
		g.group.Go(func() { g.land(f) })
	}
	return g.flight
}

// land makes the connection of a flight.
func (g *generation) land(f *flight) {
	t, err := g.dial(g.life)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil:
		f.err = err
	case g.life.Err() != nil: // closed meanwhile, and nobody would close this one
		t.close()
		f.err = g.cause()
	default:
		g.addLane(t)
	}
	g.flight = nil
	close(f.done)
}

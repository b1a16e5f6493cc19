// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// errNoTurn: all connections that a server may have were busy for too long.
var errNoTurn = errors.New("no turn: too many requests to the server at a time")

// waiter is the place of a caller that waits for room on a connection.
type waiter struct {
	addrs []netip.AddrPort
	come  chan *pooledConn // takes one: a connection with a request reserved, or nil where one may be made
	place *list.Element    // in target.line; nil when the turn has come
}

// roomLocked is how many connections more may be made.
func (t *target) roomLocked() int {
	room := maxConns - t.flying
	for _, conn := range t.conns {
		if conn.retired.IsZero() && conn.Err() == nil {
			room--
		}
	}
	return room
}

// queueLocked puts a caller at the end of the line.
func (t *target) queueLocked(addrs []netip.AddrPort) *waiter {
	one := &waiter{addrs: addrs, come: make(chan *pooledConn, 1)}
	one.place = t.line.PushBack(one)
	return one
}

// serveLocked gives what room there is to those who wait for it, first come, first served.
func (t *target) serveLocked() {
	if t.line.Len() == 0 {
		return
	}
	room := t.roomLocked()
	for place := t.line.Front(); place != nil; {
		one := place.Value.(*waiter)
		place = place.Next()
		conn := t.reserveLocked(one.addrs)
		switch {
		case conn != nil:
		case room > 0:
			room--
		case !t.availableLocked():
			return
		default: // there is room at other addresses only
			continue
		}
		t.line.Remove(one.place)
		one.place = nil
		one.come <- conn
	}
}

// availableLocked says whether any connection has room.
func (t *target) availableLocked() bool {
	for _, conn := range t.conns {
		if conn.retired.IsZero() && !t.fullLocked(conn) && conn.Available() > 0 {
			return true
		}
	}
	return false
}

// stirred is told when a connection has room again, or has ended: perhaps by who holds mu. Who comes for a request is
// among those queued before it looks for room, so that what comes free behind its back is not lost on it.
func (p *pool) stirred(t *target) {
	if t.queued.Load() == 0 {
		return
	}
	go func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		t.serveLocked()
	}()
}

// awaitTurn waits until the turn has come, and returns the connection, or nil where one may be made. That time is not the
// server's.
func (p *pool) awaitTurn(ctx context.Context, t *target, one *waiter) (*pooledConn, error) {
	defer pause(ctx)()
	timer := time.NewTimer(maxTurn)
	defer timer.Stop()
	err := errNoTurn
	select {
	case conn := <-one.come:
		return conn, nil
	case <-timer.C:
	case <-ctx.Done():
		err = fmt.Errorf("no turn: %w", contextError(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.place != nil {
		t.line.Remove(one.place)
		return nil, err
	}
	if conn := <-one.come; conn != nil { // it came between the end of the wait and the lock
		conn.Release()
	}
	t.serveLocked()
	return nil, err
}

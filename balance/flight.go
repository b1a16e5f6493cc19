// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

// connectTimeout bounds the making of a connection for callers that set no limit themselves.
const connectTimeout = 5 * time.Second

// flight is one connection being made. It ends early when nobody waits for it any more.
type flight struct {
	target *target
	key    string // in target.flights
	cancel context.CancelFunc
	done   chan struct{} // closed when conn and err are set

	// The rest is guarded by pool.mu; conn and err may also be read once done is closed.
	waiters int
	owned   bool        // the caller who started it still waits
	conn    *pooledConn // with one request reserved for the owner, if there is one, and err is nil
	err     error
}

// seat is a caller's place on a flight. The owner is the one who started it and gets a request on the connection; the
// others then look for room on it.
type seat struct {
	flight *flight
	owner  bool
}

// conn returns a connection to one of endpoint.Addrs: one that is there, in the order of the addresses, else a new one.
// Where there is no room it waits for a turn. One request is reserved on the connection, which the caller must use. reused
// says that it was there.
func (p *pool) conn(ctx context.Context, t *target, endpoint discover.Endpoint) (conn *pooledConn, reused bool, err error) {
	t.queued.Add(1)
	defer t.queued.Add(-1)
	for flew := false; ; {
		found, err := p.find(t, endpoint)
		switch {
		case err != nil:
			return nil, false, err
		case found.conn != nil:
			return found.conn, true, nil
		case found.waiter != nil:
			conn, err := p.awaitTurn(ctx, t, found.waiter)
			if conn != nil || err != nil {
				return conn, true, err
			}
			continue
		}
		conn, err := p.board(ctx, found.seat, flew)
		if err != nil || found.seat.owner {
			return conn, false, err
		}
		flew = true
	}
}

// board waits for a connection that is being made. Who waits for another one, since the one before was full when it was
// there, waits for room: that the server can be reached is known by then.
func (p *pool) board(ctx context.Context, s seat, again bool) (*pooledConn, error) {
	if again {
		defer pause(ctx)()
	}
	conn, err := p.await(ctx, s)
	if err != nil && conn != nil { // it had ended by the time it was there
		err = exchangeError(ctx, conn.cause(err))
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// found is what there is for a caller: a connection with a request reserved, else a seat on a flight, or else a turn to
// wait for.
type found struct {
	conn   *pooledConn
	seat   seat
	waiter *waiter
}

// find finds it. A flight is shared by all who need a connection, unless the server is known to speak HTTP/1.1, where a
// connection serves one.
func (p *pool) find(t *target, endpoint discover.Endpoint) (found, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return found{}, ErrProberClosed
	}
	if conn := t.reserveLocked(endpoint.Addrs); conn != nil {
		return found{conn: conn}, nil
	}
	key := fmt.Sprint(endpoint.Addrs)
	if f := t.flights[key]; f != nil && !t.http1Locked(endpoint.Addrs) {
		f.waiters++
		return found{seat: seat{flight: f}}, nil
	}
	if t.roomLocked() <= 0 {
		return found{waiter: t.queueLocked(endpoint.Addrs)}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	f := &flight{target: t, key: key, cancel: cancel, done: make(chan struct{}), waiters: 1, owned: true}
	t.flights[key] = f
	t.flying++
	p.flights.Go(func() {
		defer cancel()
		conn, err := p.connect(ctx, endpoint)
		p.land(f, conn, err)
	})
	return found{seat: seat{flight: f, owner: true}}, nil
}

// land publishes how a flight ended. A connection that nobody waits for any more is closed: its target may be forgotten
// already.
func (p *pool) land(f *flight, conn *pooledConn, err error) {
	p.mu.Lock()
	f.forgetLocked()
	f.target.flying--
	unwanted := err == nil && (p.closed || f.waiters == 0)
	switch {
	case err != nil:
	case unwanted:
		err = ErrProberClosed // read by nobody, or by callers of a closed prober
	default:
		conn.lastUsed = time.Now()
		conn.SetStateHook(func(*http.ClientConn) { p.stirred(f.target) })
		f.target.conns = append(f.target.conns, conn)
		if f.owned {
			err = conn.Reserve()
		}
	}
	f.conn, f.err = conn, err
	close(f.done)
	f.target.serveLocked()
	p.mu.Unlock()
	if unwanted {
		closeAll([]*pooledConn{conn})
	}
}

// await returns what the flight brought, or leaves it when ctx ends first.
func (p *pool) await(ctx context.Context, s seat) (*pooledConn, error) {
	f := s.flight
	select {
	case <-f.done:
		return f.conn, f.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-f.done: // it landed between the end of ctx and the lock, and a request may be reserved
		return f.conn, f.err
	default:
	}
	f.waiters--
	if s.owner {
		f.owned = false
	}
	if f.waiters == 0 {
		f.cancel()
		f.forgetLocked() // whoever comes now must not board a flight that ends
	}
	return nil, fmt.Errorf("no connection: %w", contextError(ctx))
}

func (f *flight) forgetLocked() {
	if f.target.flights[f.key] == f {
		delete(f.target.flights, f.key)
	}
}

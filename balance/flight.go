// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"fmt"
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
// One request is reserved on it, which the caller must use. reused says that it was there.
func (p *pool) conn(ctx context.Context, t *target, endpoint discover.Endpoint) (conn *pooledConn, reused bool, err error) {
	for {
		conn, waiting, err := p.reserveOrFly(t, endpoint)
		if err != nil {
			return nil, false, err
		}
		if conn != nil {
			return conn, true, nil
		}
		conn, err = p.await(ctx, waiting)
		if err != nil && conn != nil { // it had ended by the time it was there
			err = exchangeError(ctx, conn.cause(err))
		}
		if err != nil {
			return nil, false, err
		}
		if waiting.owner {
			return conn, false, nil
		}
	}
}

// reserveOrFly returns a connection with a request reserved, or else a seat on a flight. A flight is shared by all who
// need a connection, unless the server is known to speak HTTP/1.1, where a connection serves one.
func (p *pool) reserveOrFly(t *target, endpoint discover.Endpoint) (*pooledConn, seat, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, seat{}, ErrProberClosed
	}
	if conn := t.reserveLocked(endpoint.Addrs); conn != nil {
		return conn, seat{}, nil
	}
	key := fmt.Sprint(endpoint.Addrs)
	if f := t.flights[key]; f != nil && !t.http1Locked(endpoint.Addrs) {
		f.waiters++
		return nil, seat{flight: f}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	f := &flight{target: t, key: key, cancel: cancel, done: make(chan struct{}), waiters: 1, owned: true}
	t.flights[key] = f
	p.flights.Go(func() {
		defer cancel()
		conn, err := p.connect(ctx, endpoint)
		p.land(f, conn, err)
	})
	return nil, seat{flight: f, owner: true}, nil
}

// land publishes how a flight ended. A connection that nobody waits for any more is closed: its target may be forgotten
// already.
func (p *pool) land(f *flight, conn *pooledConn, err error) {
	p.mu.Lock()
	f.forgetLocked()
	unwanted := err == nil && (p.closed || f.waiters == 0)
	switch {
	case err != nil:
	case unwanted:
		err = ErrProberClosed // read by nobody, or by callers of a closed prober
	default:
		conn.lastUsed = time.Now()
		f.target.conns = append(f.target.conns, conn)
		if f.owned {
			err = conn.Reserve()
		}
	}
	f.conn, f.err = conn, err
	close(f.done)
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

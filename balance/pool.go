// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/certerr"
)

const (
	// idleTimeout is how long a connection is kept unused. It outlives the longest backoff of a session (30 s).
	idleTimeout = time.Minute
	// maxConns is how many connections to one server take requests at a time. Each has as many as the server allows: one
	// over HTTP/1.1, 100 with stock servers over HTTP/2. Who finds no room waits for a turn.
	maxConns = 64
	// maxTurn is how long a caller waits for a turn, whatever its context says.
	maxTurn = 10 * time.Second
	// maxIdle is how many idle connections are kept for one server.
	maxIdle = 4
	// maxTargets bounds the memory for a source that names new endpoints all the time.
	maxTargets = 512
)

// pool keeps the connections of a prober, by server, so that a later exchange with an address needs no new handshake.
// It is made of http.ClientConns rather than of http.Transports, because it must know which address each connection is
// on, and because callers that come at the same time must share one HTTP/2 connection from the start.
type pool struct {
	connect func(context.Context, discover.Endpoint) (*pooledConn, error)
	flights sync.WaitGroup // connections being made

	mu      sync.Mutex
	closed  bool                  // guarded by mu, as are the fields below and those of target
	targets map[targetKey]*target // by what tells endpoints apart and how they are verified
	sweeper *time.Timer           // set while there are targets
}

type targetKey struct {
	host       string
	port       uint16
	serverName string
}

// target is one server: the connections to it, whatever their address.
type target struct {
	users    int // callers between enter and leave, waiting or in their turn
	lastUsed time.Time
	conns    []*pooledConn
	flying   int                // connections being made
	flights  map[string]*flight // by the addresses that they may end up on
	perConn  int                // how many requests a connection takes at a time; 0 while that is not known
	line     list.List          // of *waiter: the callers that wait for room, in the order in which they came
	// queued is how many callers look for room or wait for it. The hooks of connections read it without pool.mu, which may
	// be held by who has called them.
	queued atomic.Int64
}

// pooledConn is one connection. Its last three fields are guarded by pool.mu.
type pooledConn struct {
	*http.ClientConn
	secured  *tls.Conn        // nil without TLS
	hearing  *certerr.Hearing // what TLS stands on; nil without
	addr     netip.AddrPort
	http2    bool
	heard    bool      // the server has answered on it
	retired  time.Time // when it was found silent and stopped taking requests; zero while it takes them
	lastUsed time.Time
}

// cause returns why a request failed with err: what TLS has to say of the end of the connection, where it says anything.
// net/http has no word of it for a request that came too late.
func (c *pooledConn) cause(err error) error {
	if c.secured == nil || c.Err() == nil || !c.hearing.Wait() {
		return err
	}
	var one [1]byte
	_, last := c.secured.Read(one[:]) // nothing more comes; an alert that came is remembered
	if said, ok := errors.AsType[*net.OpError](last); ok && said.Op == "remote error" {
		return said
	}
	return err
}

func newPool(connect func(context.Context, discover.Endpoint) (*pooledConn, error)) *pool {
	return &pool{connect: connect, targets: make(map[targetKey]*target)}
}

// enter returns what is kept of the server. The caller must hand it to leave.
func (p *pool) enter(endpoint discover.Endpoint) (*target, error) {
	t, evicted, err := p.use(targetKey{endpoint.Host, endpoint.Port, endpoint.VerifyName()})
	closeAll(evicted)
	return t, err
}

// use returns the target with one more user, and the connections of another target that had to go for it.
func (p *pool) use(key targetKey) (t *target, evicted []*pooledConn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrProberClosed
	}
	t = p.targets[key]
	if t == nil {
		if len(p.targets) >= maxTargets {
			evicted = p.evictLocked()
		}
		t = &target{flights: make(map[string]*flight)}
		p.targets[key] = t
	}
	if p.sweeper == nil {
		p.sweeper = time.AfterFunc(idleTimeout/2, p.sweep)
	}
	t.users++
	t.lastUsed = time.Now()
	return t, evicted, nil
}

// leave says that the caller is done.
func (p *pool) leave(t *target) {
	p.mu.Lock()
	t.users--
	t.lastUsed = time.Now()
	spare := t.pruneLocked(t.lastUsed)
	p.mu.Unlock()
	closeAll(spare)
}

// heard notes that the server has answered on the connection. It has said by then how many requests it takes on one.
func (p *pool) heard(t *target, conn *pooledConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	conn.lastUsed, conn.heard = time.Now(), true
	switch available, inFlight := conn.Available(), conn.InFlight(); {
	case available > 0:
		t.perConn = available + inFlight
	case inFlight > 0 && (t.perConn == 0 || inFlight < t.perConn): // it may have been sent more than it takes
		t.perConn = inFlight
	}
}

// retire keeps the connection from taking more requests, unless there was an answer on it since one was sent that has none:
// then it is that one request that takes long. It is closed when those under way have ended; HTTP/2 never finds that of a
// dead connection, so also when every call that can still be waiting for it has timed out.
func (p *pool) retire(t *target, conn *pooledConn, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn.retired.IsZero() && !conn.lastUsed.After(sent) {
		conn.retired = time.Now()
		t.serveLocked() // another one may be made in its place
	}
}

// sweep closes what has been idle for too long and forgets servers without connections.
func (p *pool) sweep() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	now := time.Now()
	var idle []*pooledConn
	for key, t := range p.targets {
		idle = append(idle, t.pruneLocked(now)...)
		if len(t.conns) == 0 && t.users == 0 {
			delete(p.targets, key)
		}
	}
	if len(p.targets) > 0 {
		p.sweeper.Reset(idleTimeout / 2)
	} else {
		p.sweeper = nil
	}
	p.mu.Unlock()
	closeAll(idle)
}

// evictLocked forgets the server that has been unused for longest and returns its connections, which the caller must
// close once the lock is free. Servers in use stay: their number is that of the calls under way.
func (p *pool) evictLocked() []*pooledConn {
	var oldest targetKey
	var victim *target
	for key, t := range p.targets {
		if t.users == 0 && (victim == nil || t.lastUsed.Before(victim.lastUsed)) {
			oldest, victim = key, t
		}
	}
	if victim == nil {
		return nil
	}
	delete(p.targets, oldest)
	return victim.conns
}

// close ends all connections and waits for those being made, which end when their callers do.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	var all []*pooledConn
	for _, t := range p.targets {
		all = append(all, t.conns...)
		t.conns = nil
	}
	clear(p.targets)
	p.mu.Unlock()
	closeAll(all)
	p.flights.Wait()
}

// reserveLocked reserves a request on a connection to the first of the addresses that has one to offer, or returns nil.
func (t *target) reserveLocked(addrs []netip.AddrPort) *pooledConn {
	for _, addr := range addrs {
		for _, conn := range t.conns {
			if conn.addr == addr && conn.retired.IsZero() && !t.fullLocked(conn) && conn.Reserve() == nil {
				return conn
			}
		}
	}
	return nil
}

// fullLocked says that a new connection has as many requests as the ones before it took. It thinks itself that it takes 100
// until it is told otherwise.
func (t *target) fullLocked(conn *pooledConn) bool {
	return !conn.heard && t.perConn > 0 && conn.InFlight() >= t.perConn
}

// http1Locked says whether the server is known to speak HTTP/1.1 on one of the addresses.
func (t *target) http1Locked(addrs []netip.AddrPort) bool {
	return slices.ContainsFunc(t.conns, func(conn *pooledConn) bool {
		return !conn.http2 && conn.Err() == nil && slices.Contains(addrs, conn.addr)
	})
}

// pruneLocked takes out the connections that are dead, retired, idle for too long or too many, and returns them. The
// caller must close them once the lock is free.
func (t *target) pruneLocked(now time.Time) []*pooledConn {
	var pruned []*pooledConn
	idleConns, retired := 0, 0
	for _, conn := range t.conns {
		if !conn.retired.IsZero() {
			retired++
		}
	}
	t.conns = slices.DeleteFunc(t.conns, func(conn *pooledConn) bool {
		idle, surplus := conn.InFlight() == 0, false
		switch {
		case !conn.retired.IsZero():
			surplus = idle || retired > maxConns || now.Sub(conn.retired) >= callTimeout
		case idle:
			idleConns++
			surplus = idleConns > maxIdle+t.users || // whoever is here may need one in a moment
				now.Sub(conn.lastUsed) >= idleTimeout
		}
		gone := conn.Err() != nil || surplus
		if gone {
			pruned = append(pruned, conn)
			if !conn.retired.IsZero() {
				retired--
			}
		}
		return gone
	})
	return pruned
}

// closeAll closes connections that nobody uses any more: there is nobody to tell that closing one failed.
func closeAll(conns []*pooledConn) {
	for _, conn := range conns {
		_ = conn.Close()
	}
}

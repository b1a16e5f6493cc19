// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"errors"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// An update has a failed endpoint tried again when the latest attempt is so long ago: at first retryFloor, then twice as
// long after each such attempt up to retryCeiling, which is less than the time between two regular lookups. Without the
// growth, lookups that failed attempts ask for would ask for attempts in turn, and gRPC's backoff would never get long.
const (
	retryFloor    = time.Second
	retryCeiling  = 20 * time.Second
	maxRetryShift = 5
)

var (
	errUnknown  = errors.New("the connection failed")
	errFlapping = errors.New("connections are closed as soon as they are made")
)

// child is one endpoint. All fields are guarded by the policy's mutex.
type child struct {
	key      string
	at       string // the key of the address that it was connected to last; empty when that is not known
	addr     string // the first address, for people
	endpoint resolver.Endpoint
	weight   uint32
	load     *load
	tether   *tether
	level    *level // nil while draining

	conn    *childConn // nil while it is not dialled
	state   connectivity.State
	err     error              // why it failed
	told    connectivity.State // to the hooks
	link    *link              // not nil while it may get calls
	sc      balancer.SubConn
	tried   time.Time   // when the latest attempt began
	retries int         // attempts that updates have asked for since it was ready
	since   time.Time   // when it became ready
	flaps   int         // connections in a row that lived less than flapSpan
	lost    time.Time   // when the latest of them was lost
	pause   *time.Timer // to the next attempt after a flap; nil when there is none
	retried bool        // conn replaces one that failed: it counts as failed until it has a result of its own
	drain   *time.Timer // to the end of the drain; nil when it has none
	drains  int         // so far
	probed  bool        // it was asked whether it has a health service
}

// childConn is what the pick_first policy of one child sees of the channel. Its lb belongs to the policy's work lane,
// the rest is guarded by the policy's mutex.
type childConn struct {
	balancer.ClientConn

	policy *policy
	child  *child
	gone   bool                             // nothing it says counts any more
	raw    [connectivity.Shutdown + 1]uint8 // number of subchannels by state, without health checks
	lb     balancer.Balancer
}

// startLocked begins to dial an endpoint that is not dialled.
func (p *policy) startLocked(c *child) {
	conn := &childConn{ClientConn: p.cc, policy: p, child: c}
	c.conn, c.tried = conn, time.Now()
	p.conns[conn] = struct{}{}
	p.work.do(conn.start)
	if c.state != connectivity.TransientFailure {
		p.setStateLocked(c, connectivity.Connecting, nil)
	}
}

// stopLocked gives up the connections of an endpoint: grpc-go closes them when their calls have ended. No state is told
// from here on.
func (p *policy) stopLocked(c *child) {
	conn := c.conn
	if conn == nil {
		return
	}
	c.conn, c.sc, c.retried = nil, nil, false
	conn.gone = true
	c.stopPause()
	p.work.do(func() { conn.close() })
}

// retryLocked tries a failed endpoint again now, and not when its backoff is over. One that is being tried, or whose
// connection is there but not healthy, is left alone.
func (p *policy) retryLocked(c *child) {
	floor := min(retryFloor<<min(c.retries, maxRetryShift), retryCeiling)
	if c.conn == nil || c.state != connectivity.TransientFailure || time.Since(c.tried) < floor {
		return
	}
	if c.pause != nil {
		c.retries++
		p.resumeLocked(c, 0)
		return
	}
	raw := &c.conn.raw
	if raw[connectivity.TransientFailure] == 0 || raw[connectivity.Connecting] > 0 || raw[connectivity.Ready] > 0 {
		return
	}
	p.stopLocked(c)
	p.startLocked(c)
	c.retries++
	c.retried = true
}

// start makes the pick_first policy. It runs on the work lane.
func (cc *childConn) start() {
	state, live := cc.update()
	if !live {
		return
	}
	cc.lb = balancer.Get(pickfirst.Name).Build(cc, cc.policy.opts)
	// The one error there is says that there are no addresses, and an endpoint without any is never made a child.
	_ = cc.lb.UpdateClientConnState(state)
}

// reconnect dials again after a connection was lost, with what the resolver has said of the endpoint since. It runs on
// the work lane. The endpoint is told first: to a child with a connection a new attribute would be a new address.
func (cc *childConn) reconnect() {
	state, live := cc.update()
	if !live || cc.lb == nil {
		return
	}
	_ = cc.lb.UpdateClientConnState(state)
	cc.lb.ExitIdle()
}

// update returns what to tell pick_first, and whether there is still any need to.
func (cc *childConn) update() (balancer.ClientConnState, bool) {
	cc.policy.mu.Lock()
	defer cc.policy.mu.Unlock()
	state := resolver.State{Endpoints: []resolver.Endpoint{cc.child.endpoint}, Attributes: cc.policy.attributes}
	return balancer.ClientConnState{ResolverState: state}, !cc.gone && !cc.policy.closed
}

// close ends the pick_first policy. It runs on the work lane, or after it.
func (cc *childConn) close() {
	if cc.lb != nil {
		cc.lb.Close()
		cc.lb = nil
	}
	cc.policy.mu.Lock()
	defer cc.policy.mu.Unlock()
	delete(cc.policy.conns, cc)
}

// NewSubConn puts the connections of the subchannel on the endpoint's tether and keeps count of raw states.
func (cc *childConn) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	if opts.CredsBundle == nil { //nolint:staticcheck // the attributes that are to replace it would need a dial option
		opts.CredsBundle = newTetherBundle(cc.policy.opts, cc.child.tether) //nolint:staticcheck // as above
	}
	listener := opts.StateListener
	was := connectivity.Idle
	opts.StateListener = func(state balancer.SubConnState) {
		cc.count(was, state.ConnectivityState, addrs[0]) // pick_first makes one for each address
		was = state.ConnectivityState
		listener(state)
	}
	return cc.ClientConn.NewSubConn(addrs, opts) //nolint:staticcheck // it is the one way to make a subchannel
}

func (cc *childConn) count(was, is connectivity.State, address resolver.Address) {
	cc.policy.mu.Lock()
	defer cc.policy.mu.Unlock()
	if was != connectivity.Idle {
		cc.raw[was]--
	}
	if is != connectivity.Idle {
		cc.raw[is]++
	}
	switch {
	case cc.gone:
	case is == connectivity.Connecting:
		cc.child.tried = time.Now()
	case is == connectivity.Ready:
		cc.child.noteAddressLocked(address)
	}
}

// UpdateState is called by pick_first, which holds its own mutex: the order is that one, then the policy's.
func (cc *childConn) UpdateState(state balancer.State) {
	p := cc.policy
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || cc.gone {
		return
	}
	c := cc.child
	wasLinked := c.link != nil
	switch state.ConnectivityState {
	case connectivity.Ready:
		result, err := state.Picker.Pick(balancer.PickInfo{})
		if err != nil {
			return // a ready pick_first has one subchannel and returns it always
		}
		p.readyLocked(c, result.SubConn)
	case connectivity.TransientFailure:
		_, err := state.Picker.Pick(balancer.PickInfo{})
		if err == nil {
			err = errUnknown
		}
		c.retried = false
		p.setStateLocked(c, connectivity.TransientFailure, err)
	case connectivity.Idle:
		p.lostLocked(c)
	default:
		// What has failed counts as failed until it is known to be better.
		if c.state != connectivity.TransientFailure || !c.retried && c.flaps < 2 {
			p.setStateLocked(c, connectivity.Connecting, nil)
		}
	}
	p.settleLocked(wasLinked && c.link == nil)
}

// readyLocked takes an endpoint into rotation.
func (p *policy) readyLocked(c *child, sc balancer.SubConn) {
	c.sc, c.retried, c.retries, c.since = sc, false, 0, time.Now()
	p.setStateLocked(c, connectivity.Ready, nil)
	p.linkLocked(c)
	p.probeHealthLocked(c)
}

// setStateLocked notes the state of an endpoint; one that is no longer ready gets no call from here on.
func (p *policy) setStateLocked(c *child, state connectivity.State, err error) {
	if state != connectivity.Ready && c.link != nil {
		c.link.dead.Store(true)
		c.link = nil
	}
	if c.level != nil {
		c.level.count(c.state, state)
	}
	changed := c.state != state
	if state == connectivity.TransientFailure && c.level != nil && (c.err == nil || c.err.Error() != err.Error()) {
		c.level.stale = true
	}
	c.state, c.err = state, err
	if changed && c.level != nil { // of one that was removed that was the last that is told
		p.tellEndpointLocked(c, state)
	}
}

// linkLocked makes a link for an endpoint that is ready and in the set. One whose server says that it is not healthy has
// a connection and is not ready.
func (p *policy) linkLocked(c *child) {
	if c.state != connectivity.Ready || c.sc == nil || c.link != nil || c.level == nil {
		return
	}
	c.link = &link{sc: c.sc, load: c.load}
	c.level.stale = true
}

func (p *policy) tellEndpointLocked(c *child, state connectivity.State) {
	hooks, addr, was, err := p.hooks, c.addr, c.told, c.err
	c.told = state
	if hooks != nil && hooks.Endpoint != nil {
		p.tellLocked(hooks, func() { hooks.Endpoint(addr, was, state, err) })
	}
}

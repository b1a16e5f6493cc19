// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	_ "google.golang.org/grpc/balancer/leastrequest"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
)

func init() { //nolint:gochecknoinits // grpc-go's registry takes no lock
	policy.Register()
}

// fakeChannel is the channel of a policy, without a network: its subchannels are ready as soon as they are to connect,
// unless the test holds them back.
type fakeChannel struct {
	balancer.ClientConn

	mu        sync.Mutex
	healthy   atomic.Int64 // subchannels that the policy was told to be ready
	held      bool
	made      []*fakeSubConn
	published int
	state     balancer.State
	changed   chan struct{} // closed with every publication
}

func newFakeChannel() *fakeChannel { return &fakeChannel{changed: make(chan struct{})} }

type fakeSubConn struct {
	balancer.SubConn

	channel  *fakeChannel
	addr     string
	listener func(balancer.SubConnState)

	mu     sync.Mutex // orders what the listener is told
	closed bool
}

func (c *fakeChannel) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	sc := &fakeSubConn{channel: c, addr: addrs[0].Addr, listener: opts.StateListener}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = append(c.made, sc)
	return sc, nil
}

func (c *fakeChannel) UpdateState(state balancer.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.published++
	c.state = state
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *fakeChannel) ResolveNow(resolver.ResolveNowOptions) {}

func (c *fakeChannel) MetricsRecorder() stats.MetricsRecorder {
	return &stats.UnimplementedMetricsRecorder{}
}

func (s *fakeSubConn) Connect() {
	s.channel.mu.Lock()
	held := s.channel.held
	s.channel.mu.Unlock()
	if !held {
		go s.become(connectivity.Ready)
	}
}

// become tells the state as grpc-go does: not from within a call of the policy.
func (s *fakeSubConn) become(state connectivity.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	told := balancer.SubConnState{ConnectivityState: state}
	if state == connectivity.TransientFailure {
		told.ConnectionError = errors.New("refused by the test")
	}
	s.listener(told)
}

func (s *fakeSubConn) Shutdown() {
	go func() { // the policy holds its mutexes
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			s.closed = true
			s.listener(balancer.SubConnState{ConnectivityState: connectivity.Shutdown})
		}
	}()
}

func (s *fakeSubConn) RegisterHealthListener(listener func(balancer.SubConnState)) {
	go func() { // the policy holds its mutexes
		listener(balancer.SubConnState{ConnectivityState: connectivity.Ready})
		s.channel.healthy.Add(1)
	}()
}

// until waits for a publication that is as wanted, and returns it.
func (c *fakeChannel) until(tb testing.TB, wanted func(balancer.State) bool) balancer.State {
	tb.Helper()
	deadline := time.After(20 * time.Second)
	for {
		c.mu.Lock()
		state, changed := c.state, c.changed
		c.mu.Unlock()
		if state.Picker != nil && wanted(state) {
			return state
		}
		select {
		case <-changed:
		case <-deadline:
			tb.Fatalf("not published within 20 s; the last state is %v", state.ConnectivityState)
		}
	}
}

// addresses returns n endpoints of one address each.
func addresses(n int) []resolver.Endpoint {
	endpoints := make([]resolver.Endpoint, n)
	for i := range endpoints {
		endpoints[i] = at(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256))
	}
	return endpoints
}

func at(addr string) resolver.Endpoint {
	return resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}}
}

// parse reads the config of any policy.
func parse(tb testing.TB, name, text string) serviceconfig.LoadBalancingConfig {
	tb.Helper()
	parsed, err := balancer.Get(name).(balancer.ConfigParser).ParseConfig(json.RawMessage(text))
	if err != nil {
		tb.Fatal(err)
	}
	return parsed
}

// readyPicker builds a policy with ready endpoints and returns its picker, which chooses from all of them.
func readyPicker(tb testing.TB, name string, endpoints []resolver.Endpoint) balancer.Picker {
	tb.Helper()
	channel := newFakeChannel()
	built := balancer.Get(name).Build(channel, balancer.BuildOptions{})
	tb.Cleanup(built.Close)
	var parsed serviceconfig.LoadBalancingConfig
	if _, ok := balancer.Get(name).(balancer.ConfigParser); ok {
		parsed = parse(tb, name, "{}")
	}
	err := built.UpdateClientConnState(balancer.ClientConnState{
		ResolverState:  resolver.State{Endpoints: endpoints},
		BalancerConfig: parsed,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return channel.until(tb, func(state balancer.State) bool {
		return state.ConnectivityState == connectivity.Ready && (name == "pick_first" || reaches(state.Picker, len(endpoints)))
	}).Picker
}

// reaches says whether a picker chooses from n subchannels.
func reaches(picker balancer.Picker, n int) bool {
	seen := make(map[balancer.SubConn]bool, n)
	for range 40 * n {
		result, err := picker.Pick(balancer.PickInfo{})
		if err != nil {
			return false
		}
		if result.Done != nil {
			result.Done(balancer.DoneInfo{})
		}
		seen[result.SubConn] = true
		if len(seen) == n {
			return true
		}
	}
	return false
}

// newPolicy builds a policy that has not waited for its endpoints; without any it has no state yet.
func newPolicy(tb testing.TB, name string, endpoints []resolver.Endpoint) (*fakeChannel, balancer.Balancer) {
	tb.Helper()
	channel := newFakeChannel()
	built := balancer.Get(name).Build(channel, balancer.BuildOptions{})
	tb.Cleanup(built.Close)
	if len(endpoints) > 0 {
		err := built.UpdateClientConnState(balancer.ClientConnState{ResolverState: resolver.State{Endpoints: endpoints}})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return channel, built
}

// untilReady waits for a picker that is published after n subchannels have said that they are ready.
func (c *fakeChannel) untilReady(tb testing.TB, n int) {
	tb.Helper()
	c.until(tb, func(state balancer.State) bool {
		return state.ConnectivityState == connectivity.Ready && policy.Links(state.Picker) == n
	})
}

func (c *fakeChannel) latest() balancer.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// publications is the number of pickers so far.
func (c *fakeChannel) publications() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.published
}

func (c *fakeChannel) subConns() []*fakeSubConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*fakeSubConn(nil), c.made...)
}

// hold has subchannels stay as they are when they are to connect.
func (c *fakeChannel) hold(held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
}

// die loses the connection.
func (s *fakeSubConn) die() { s.become(connectivity.Idle) }

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
)

// policyName is the load-balancing policy of a session's connections. It is of no use to anybody else.
const policyName = "evenkeel_session_connection"

// policyConfig makes a connection use it.
const policyConfig = `{"loadBalancingConfig":[{"` + policyName + `":{}}]}`

// errGone is what a call gets, before any of it is sent, on a connection that was ready and is so no more. grpc-go
// returns the error of a picker as it is when it has a status. No server can make one: it is told by identity.
var errGone error = &callError{code: codes.Unavailable, text: "connection given up"}

//nolint:gochecknoinits // grpc-go has no form of it for one channel
func init() { balancer.Register(policyBuilder{}) }

// policyBuilder builds pick_first that connects once: a connection that has left READY, for whatever reason, takes no
// more calls and is never dialled again, and calls learn that at once instead of waiting for it.
type policyBuilder struct{}

func (policyBuilder) Name() string { return policyName }

func (policyBuilder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	p := &policy{ClientConn: cc}
	p.Balancer = balancer.Get(pickfirst.Name).Build(p, opts)
	return p
}

// policy stands between pick_first and the channel, in both directions. grpc-go calls it from one goroutine at a time.
type policy struct {
	balancer.Balancer
	balancer.ClientConn
	wasReady bool
}

// UpdateState passes the state of pick_first on to the channel.
func (p *policy) UpdateState(s balancer.State) {
	switch {
	case s.ConnectivityState == connectivity.Ready:
		p.wasReady = true
	case p.wasReady:
		s = balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: gonePicker{}}
	}
	p.ClientConn.UpdateState(s)
}

// ExitIdle connects, the first time.
func (p *policy) ExitIdle() {
	if !p.wasReady {
		p.Balancer.ExitIdle()
	}
}

type gonePicker struct{}

func (gonePicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{}, errGone
}

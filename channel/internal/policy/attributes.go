// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"sync"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

type priorityKey struct{}

// SetPriority returns the endpoint with a priority; lower ones are used first, and one without has 0. Only endpoints of
// the best priority of which any is ready get calls. Safe for concurrent use.
func SetPriority(endpoint resolver.Endpoint, priority uint16) resolver.Endpoint {
	endpoint.Attributes = endpoint.Attributes.WithValue(priorityKey{}, priority)
	return endpoint
}

// Priority returns what SetPriority has set, or 0. Safe for concurrent use.
func Priority(endpoint resolver.Endpoint) uint16 {
	priority, _ := endpoint.Attributes.Value(priorityKey{}).(uint16)
	return priority
}

type hooksKey struct{}

// Hooks is told what happens to the endpoints of one channel. Any field may be nil. All functions but Took are called in
// the order of the events, one at a time, on a goroutine of the policy, and never after the policy is closed. Closing the
// policy waits for the one that runs: it must neither block nor close the channel. A policy that is closed, as that of a
// channel that goes idle is, does not say so. Only the policy that took the latest state with the hooks tells anything,
// until Release. A Hooks must not be copied.
type Hooks struct {
	// Took is called with every state that a policy takes, before that update returns: whoever gave the hooks learns that
	// one of these policies is at work. It must only take a note. First says that it is another policy than the one
	// before: all its endpoints are new, and what was told of those before no longer counts.
	Took func(first bool)
	// Endpoint is called when the state of an endpoint has changed. The address is the first of the endpoint's, of which
	// several may have the same, and the error is the cause when the state is transient failure. Was is what was told of
	// it last; Shutdown means that it was not there. Shutdown is the last that is told of an endpoint that was removed,
	// whatever becomes of the connection that it may still have; one that comes back begins with the state it has then.
	Endpoint func(addr string, was, is connectivity.State, err error)
	// Usable is called when the first endpoint has become ready, with true, and when the last one no longer is. Before
	// the first call there is none.
	Usable func(usable bool)
	// NoHealth is called once, with the first endpoint that has no health service though HealthService is to be watched.
	// Such a server counts as healthy (gRFC A17). While it is set, the first connection of each endpoint makes one short
	// call of the health service more.
	NoHealth func(addr string)
	// HealthService is the name in the service config's healthCheckConfig. It is used for NoHealth only.
	HealthService string

	mu    sync.Mutex // comes after a policy's mutex
	owner *policy    // guarded by mu: took the latest state
}

// Release has no policy tell anything until one takes a state again. It waits for a hook that runs. Safe for concurrent
// use.
func (h *Hooks) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owner = nil
}

// take makes a policy the one that tells. Nothing of another one is told after Took was called.
func (h *Hooks) take(p *policy) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.owner != p
	h.owner = p
	if h.Took != nil {
		h.Took(first)
	}
}

// tell calls a hook, unless they are another policy's.
func (h *Hooks) tell(p *policy, hook func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.owner == p {
		hook()
	}
}

// WithHooks returns the state with hooks for the policy that gets it. The hooks of the latest state count.
func WithHooks(state resolver.State, hooks *Hooks) resolver.State {
	state.Attributes = state.Attributes.WithValue(hooksKey{}, hooks)
	return state
}

// hooksOf returns the hooks of a state, or nil.
func hooksOf(state resolver.State) *Hooks {
	hooks, _ := state.Attributes.Value(hooksKey{}).(*Hooks)
	return hooks
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// ConnectForTest registers a client as the Connect stream of a peer does, and returns what its end does.
func (r *Registry) ConnectForTest(id, from string) func() {
	c := newClient(&clientspb.ConnectRequest{ConnectionId: id}, r.config.Name)
	r.connect(c, sourceOfText(from), "")
	return func() { r.disconnect(c) }
}

// KeepAliveForTest notes a sign of life as the service does.
func (r *Registry) KeepAliveForTest(id string) bool { return r.keepAlive(id) }

// BucketsForTest returns how many addresses the rate limit remembers.
func (r *Registry) BucketsForTest() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limiter.byUse.Len()
}

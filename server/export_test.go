// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"time"

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

// TokensForTest are the tokens of an authenticator without the rest of it.
type TokensForTest struct{ live *liveTokens }

// NewTokensForTest makes some.
func NewTokensForTest(life time.Duration, limit int) TokensForTest {
	return TokensForTest{newLiveTokens(life, limit)}
}

// Issue makes a token.
func (t TokensForTest) Issue(now time.Time) string { return t.live.issue(now) }

// Valid says whether a token is valid.
func (t TokensForTest) Valid(token string, now time.Time) bool { return t.live.valid(token, now) }

// Size returns how many tokens are kept, and for how many there is room.
func (t TokensForTest) Size() (live, room int) { return len(t.live.expires), cap(t.live.order) }

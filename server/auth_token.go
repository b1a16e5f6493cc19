// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"sync"
	"time"
)

// tokenBytes is how much of a token is random: nobody guesses one.
const tokenBytes = 32

// liveTokens are the tokens that are valid, by their digest: a lookup takes a time that tells nothing of the tokens there
// are, and memory does not hold any. All live equally long, so they expire in the order in which they were given. It is
// safe for concurrent use.
type liveTokens struct {
	life time.Duration
	max  int

	mu      sync.RWMutex
	expires map[tokenDigest]time.Time // guarded by mu
	order   []tokenDigest             // guarded by mu; the oldest first
}

type tokenDigest [sha256.Size]byte

func newLiveTokens(life time.Duration, limit int) *liveTokens {
	return &liveTokens{life: life, max: limit, expires: make(map[tokenDigest]time.Time)}
}

// issue makes a token. It forgets those that have expired, and the oldest when there are too many; its cost is constant,
// amortised over calls.
func (l *liveTokens) issue(now time.Time) string {
	var random [tokenBytes]byte
	_, _ = rand.Read(random[:]) // it never fails, says its documentation
	token := base64.RawURLEncoding.EncodeToString(random[:])
	key := tokenDigest(sha256.Sum256([]byte(token)))
	l.mu.Lock()
	defer l.mu.Unlock()
	drop := 0
	for drop < len(l.order) && (len(l.order)-drop >= l.max || !now.Before(l.expires[l.order[drop]])) {
		delete(l.expires, l.order[drop])
		drop++
	}
	// Append copies when the space is used up: what was dropped in front is not kept for ever.
	l.order = append(l.order[drop:], key)
	l.expires[key] = now.Add(l.life)
	if cap(l.order) > 4*len(l.order)+64 {
		l.order = slices.Clip(slices.Clone(l.order))
	}
	return token
}

// valid says whether a token was given here and has not expired.
func (l *liveTokens) valid(token string, now time.Time) bool {
	key := tokenDigest(sha256.Sum256([]byte(token)))
	l.mu.RLock()
	defer l.mu.RUnlock()
	expires, known := l.expires[key]
	return known && now.Before(expires)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"sync/atomic"
	"time"
)

// beat is the part of a client that a keep-alive touches, and no more: with very many clients a keep-alive costs what it
// costs to reach memory that is in no cache. It is one cache line long, so the allocator packs the beats of all clients
// into a small part of the heap, apart from everything else that belongs to a client.
type beat struct {
	lastSeen atomic.Int64 // a time.Duration since the registry was made
	owner    *client
	sameHash *beat // the next one whose id has the same hash; guarded by the shard's lock
	length   uint8 // of the id
	begin    [shortID]byte
}

// shortID is how much of an id is kept in its beat; a GUID's 36 characters fit.
const shortID = 39

func newBeat(owner *client) *beat {
	b := &beat{owner: owner, length: uint8(len(owner.id))}
	copy(b.begin[:], owner.id)
	return b
}

// is reports whether the client has that id.
func (b *beat) is(id string) bool {
	if len(id) != int(b.length) {
		return false
	}
	if len(id) > shortID {
		return b.owner.id == id
	}
	return string(b.begin[:b.length]) == id
}

// seen notes that the client was heard of.
func (b *beat) seen(now time.Duration) { b.lastSeen.Store(int64(now)) }

// age is how long ago that was.
func (b *beat) age(now time.Duration) time.Duration {
	return max(now-time.Duration(b.lastSeen.Load()), 0)
}

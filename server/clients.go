// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"hash/maphash"
	"sync"
)

// shardCount is how many locks the clients are spread over: enough that keep-alives on many cores rarely meet.
const shardCount = 64

// clients finds a registered client by its connection id. It is safe for concurrent use: keep-alives read it under the
// read lock of one shard, and never wait for the registry's lock.
type clients struct {
	seed   maphash.Seed
	shards [shardCount]shard
}

// shard maps the hashes of ids to clients. Nearly every hash has one client; those that share one form a chain.
type shard struct {
	mu     sync.RWMutex
	byHash map[uint64]*beat
	_      [32]byte // keeps the locks of two shards out of one cache line
}

func newClients() *clients {
	cs := &clients{seed: maphash.MakeSeed()}
	for i := range cs.shards {
		cs.shards[i].byHash = make(map[uint64]*beat)
	}
	return cs
}

// find returns the hash of an id and the shard that it belongs to.
func (cs *clients) find(id string) (uint64, *shard) {
	hash := maphash.String(cs.seed, id)
	return hash, &cs.shards[hash%shardCount]
}

// get returns the beat of the client with that id, or nil.
func (cs *clients) get(id string) *beat {
	hash, s := cs.find(id)
	s.mu.RLock()
	b := s.byHash[hash]
	for b != nil && !b.is(id) {
		b = b.sameHash
	}
	s.mu.RUnlock()
	return b
}

// put registers a client and returns the one that had its id before, or nil.
func (cs *clients) put(c *client) *client {
	hash, s := cs.find(c.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	older := s.unlink(hash, func(b *beat) bool { return b.is(c.id) })
	c.beat.sameHash = s.byHash[hash]
	s.byHash[hash] = c.beat
	if older == nil {
		return nil
	}
	return older.owner
}

// remove takes a client out and reports whether it was in: a newer one with the same id stays.
func (cs *clients) remove(c *client) bool {
	hash, s := cs.find(c.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unlink(hash, func(b *beat) bool { return b == c.beat }) != nil
}

// unlink takes the beat for which match holds out of the chain of a hash and returns it, or nil where there is none. s.mu
// is held.
func (s *shard) unlink(hash uint64, match func(*beat) bool) *beat {
	var before *beat
	for b := s.byHash[hash]; b != nil; before, b = b, b.sameHash {
		if !match(b) {
			continue
		}
		switch {
		case before != nil:
			before.sameHash = b.sameHash
		case b.sameHash != nil:
			s.byHash[hash] = b.sameHash
		default:
			delete(s.byHash, hash)
		}
		b.sameHash = nil
		return b
	}
	return nil
}

// all returns the clients in no order. It holds one shard at a time, so it is not one point in time.
func (cs *clients) all() []*client {
	var all []*client
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.RLock()
		for _, b := range s.byHash {
			for ; b != nil; b = b.sameHash {
				all = append(all, b.owner)
			}
		}
		s.mu.RUnlock()
	}
	return all
}

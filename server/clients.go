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

type shard struct {
	mu   sync.RWMutex
	byID map[string]*client
	_    [32]byte // keeps the locks of two shards out of one cache line
}

func newClients() *clients {
	cs := &clients{seed: maphash.MakeSeed()}
	for i := range cs.shards {
		cs.shards[i].byID = make(map[string]*client)
	}
	return cs
}

func (cs *clients) shard(id string) *shard {
	return &cs.shards[maphash.String(cs.seed, id)%shardCount]
}

// get returns the client of that id, or nil.
func (cs *clients) get(id string) *client {
	s := cs.shard(id)
	s.mu.RLock()
	c := s.byID[id]
	s.mu.RUnlock()
	return c
}

// put registers a client and returns the one that had its id before, or nil.
func (cs *clients) put(c *client) *client {
	s := cs.shard(c.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	older := s.byID[c.id]
	s.byID[c.id] = c
	return older
}

// remove takes a client out and reports whether it was in: a newer one with the same id stays.
func (cs *clients) remove(c *client) bool {
	s := cs.shard(c.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[c.id] != c {
		return false
	}
	delete(s.byID, c.id)
	return true
}

// all returns the clients in no order. It holds one shard at a time, so it is not one point in time.
func (cs *clients) all() []*client {
	var all []*client
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.RLock()
		for _, c := range s.byID {
			all = append(all, c)
		}
		s.mu.RUnlock()
	}
	return all
}

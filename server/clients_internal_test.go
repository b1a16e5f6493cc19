// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"strconv"
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

func clientNamed(id string) *client {
	return newClient(&clientspb.ConnectRequest{ConnectionId: id}, "")
}

func TestClientsAreFoundByTheirWholeID(t *testing.T) {
	t.Parallel()
	cs := newClients()
	// Of lengths around that of the part kept in place, and alike but for their last character.
	var all []*client
	for _, length := range []int{1, shortID - 1, shortID, shortID + 1, maxConnectionID} {
		for _, last := range []string{"a", "b"} {
			c := clientNamed(strings.Repeat("x", length-1) + last)
			if older := cs.put(c); older != nil {
				t.Fatalf("put %q: got an older one, want none", c.id)
			}
			all = append(all, c)
		}
	}
	for _, c := range all {
		if got := cs.get(c.id); got != c.beat {
			t.Errorf("get %q: got %v, want its own", c.id, got)
		}
	}
	if got := len(cs.all()); got != len(all) {
		t.Errorf("all: got %d, want %d", got, len(all))
	}
	for _, absent := range []string{"", "c", strings.Repeat("x", maxConnectionID), strings.Repeat("x", 300)} {
		if got := cs.get(absent); got != nil {
			t.Errorf("get %q: got one, want none", absent)
		}
	}
}

func TestNewerClientStaysWhenTheOlderOneIsRemoved(t *testing.T) {
	t.Parallel()
	cs := newClients()
	older, newer := clientNamed("a"), clientNamed("a")
	cs.put(older)
	if got := cs.put(newer); got != older {
		t.Errorf("put: got %v, want the older one", got)
	}
	if cs.remove(older) {
		t.Error("remove the older one: got true, want false: it is not in any more")
	}
	if got := cs.get("a"); got != newer.beat {
		t.Errorf("get: got %v, want the newer one", got)
	}
	if !cs.remove(newer) || cs.remove(newer) || cs.get("a") != nil {
		t.Error("remove the newer one: want true, then false, then none left")
	}
}

// Ids that share a hash are too rare to meet by chance, so the chain is made by hand.
func TestChainOfOneHash(t *testing.T) {
	t.Parallel()
	const hash = 7
	for first := range 3 {
		for second := range 3 {
			if first == second {
				continue
			}
			s := &shard{byHash: map[uint64]*beat{}}
			beats := make([]*beat, 3)
			for i := range beats {
				beats[i] = clientNamed(strconv.Itoa(i)).beat
				beats[i].sameHash = s.byHash[hash]
				s.byHash[hash] = beats[i]
			}
			left := map[*beat]bool{beats[0]: true, beats[1]: true, beats[2]: true}
			for _, i := range []int{first, second, 3 - first - second} {
				if got := s.unlink(hash, func(b *beat) bool { return b == beats[i] }); got != beats[i] {
					t.Fatalf("unlink %d, order %d %d: got %v, want it", i, first, second, got)
				}
				delete(left, beats[i])
				n := 0
				for b := s.byHash[hash]; b != nil; b = b.sameHash {
					n++
					if !left[b] {
						t.Errorf("after unlinking %d: got one in the chain that was taken out", i)
					}
				}
				if n != len(left) {
					t.Errorf("after unlinking %d: got %d in the chain, want %d", i, n, len(left))
				}
			}
			if len(s.byHash) != 0 {
				t.Errorf("after unlinking all: got %d hashes, want none", len(s.byHash))
			}
		}
	}
}

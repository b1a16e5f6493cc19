// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"sync"

	"github.com/evenkeel-go/evenkeel/discover"
)

// memorySize bounds for how many targets the last good set is kept.
const memorySize = 256

// remembered is what a target led to last.
type remembered struct {
	endpoints []discover.Endpoint // never written to
	txt       serviceConfig
}

// memory keeps the last good set of each target, so that it outlives the idle mode of grpc-go, which closes resolvers.
type memory struct {
	mu    sync.Mutex
	sets  map[string]remembered
	order []string // of the targets, the one that came first in front
}

func newMemory() *memory { return &memory{sets: make(map[string]remembered)} }

func (m *memory) get(target string) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sets[target]
}

// put keeps a set. When there are too many the target that came first is forgotten.
func (m *memory) put(target string, set remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.sets[target]; !known {
		if len(m.order) == memorySize {
			delete(m.sets, m.order[0])
			m.order = append(m.order[:0], m.order[1:]...)
		}
		m.order = append(m.order, target)
	}
	m.sets[target] = set
}

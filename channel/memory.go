// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"slices"
	"sync"

	"github.com/evenkeel-go/evenkeel/discover"
)

// memorySize bounds for how many targets that have no resolver now the last good set is kept.
const memorySize = 256

// remembered is what a target led to last.
type remembered struct {
	endpoints []discover.Endpoint // never written to
	txt       serviceConfig
}

// memory keeps the last good set of each target, so that it outlives the idle mode of grpc-go, which closes resolvers. A
// target that has a resolver is never forgotten.
type memory struct {
	mu      sync.Mutex
	targets map[string]*remembrance // guarded by mu
	unused  []string                // guarded by mu; targets without a resolver, the oldest such in front
}

// remembrance is what is kept of one target.
type remembrance struct {
	remembered

	resolvers int
	noHealth  bool // it was told that a server has no health service
}

func newMemory() *memory { return &memory{targets: make(map[string]*remembrance)} }

// hold notes that a resolver of a target has begun, and returns what the target led to last.
func (m *memory) hold(target string) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.targets[target]
	if of == nil {
		of = new(remembrance)
		m.targets[target] = of
	} else if of.resolvers == 0 {
		m.unused = slices.DeleteFunc(m.unused, func(t string) bool { return t == target })
	}
	of.resolvers++
	return of.remembered
}

// release notes that a resolver has ended. When too many targets have none, the one that has had none for longest is
// forgotten.
func (m *memory) release(target string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.targets[target]
	if of.resolvers--; of.resolvers > 0 {
		return
	}
	m.unused = append(m.unused, target)
	if len(m.unused) > memorySize {
		delete(m.targets, m.unused[0])
		m.unused = slices.Delete(m.unused, 0, 1)
	}
}

// put keeps a set. The resolver it comes from may have ended meanwhile; what was forgotten stays so.
func (m *memory) put(target string, set remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of := m.targets[target]; of != nil {
		of.remembered = set
	}
}

// firstWithoutHealth says whether it is the first time that a server without a health service is told of.
func (m *memory) firstWithoutHealth(target string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.targets[target]
	if of == nil || of.noHealth {
		return false
	}
	of.noHealth = true
	return true
}

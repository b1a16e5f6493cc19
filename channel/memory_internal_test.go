// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"fmt"
	"testing"

	"github.com/evenkeel-go/evenkeel/discover"
)

func TestMemoryForgetsOnlyWhatHasNoResolver(t *testing.T) {
	t.Parallel()
	m := newMemory()
	set := remembered{endpoints: []discover.Endpoint{{Host: "a", Port: 1}}}
	live := make([]string, 2*memorySize)
	for i := range live { // more than are kept of those that have ended
		live[i] = fmt.Sprintf("live%d", i)
		m.hold(live[i])
		m.put(live[i], set)
	}
	use := func(target string) remembered {
		last := m.hold(target)
		m.put(target, set)
		m.release(target)
		return last
	}
	use("idle")
	for i := range memorySize - 1 {
		use(fmt.Sprintf("other%d", i))
	}
	if len(use("idle").endpoints) != 1 {
		t.Error("a target that ended as one of the last is forgotten")
	}
	for i := range memorySize - 1 { // of which the first ended before idle did
		use(fmt.Sprintf("more%d", i))
	}
	if len(use("idle").endpoints) != 1 {
		t.Error("a target that was used again is forgotten as if it had not been")
	}
	for i := range memorySize {
		use(fmt.Sprintf("yet%d", i))
	}
	if len(use("idle").endpoints) != 0 {
		t.Errorf("a target that ended before %d others is kept", memorySize)
	}
	for _, target := range live {
		if len(m.hold(target).endpoints) != 1 {
			t.Fatalf("%s has a resolver and is forgotten", target)
		}
		m.release(target)
		m.release(target)
	}
	if len(m.targets) != memorySize || len(m.unused) != memorySize {
		t.Errorf("got %d targets, %d of them without a resolver, want %d", len(m.targets), len(m.unused), memorySize)
	}
}

func TestMemoryKeepsATargetWhileAnyResolverOfItLives(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.hold("a")
	m.hold("a")
	m.put("a", remembered{endpoints: []discover.Endpoint{{Host: "a", Port: 1}}})
	m.release("a")
	for i := range memorySize + 1 {
		target := fmt.Sprintf("other%d", i)
		m.hold(target)
		m.release(target)
	}
	if len(m.hold("a").endpoints) != 1 {
		t.Error("a target that has a resolver is forgotten")
	}
	m.put("never", remembered{})
	if _, kept := m.targets["never"]; kept {
		t.Error("what came after its target was forgotten is kept for good")
	}
}

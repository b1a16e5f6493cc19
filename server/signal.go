// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import "sync"

// signal wakes all who wait for something to happen. Where nobody waits it costs a lock and no more. The zero value is
// ready. It is safe for concurrent use.
type signal struct {
	mu   sync.Mutex
	sent chan struct{} // nil while nobody waits
}

// next returns a channel that is closed by the next send.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent == nil {
		s.sent = make(chan struct{})
	}
	return s.sent
}

func (s *signal) send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent != nil {
		close(s.sent)
		s.sent = nil
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certerr

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// hearingLimit bounds a wait for what is there already, or on its way at most.
	hearingLimit = 250 * time.Millisecond
	// longestWord is how much of what a peer has sent is kept.
	longestWord = 64 << 10
)

// Hearing is a connection whose peer is heard out: when a write fails because the peer has closed the connection, what it
// sent before is read and kept for the reads to come, also for those after Close. With TLS 1.3 a server refuses a
// certificate after the client's handshake, in an alert, and closes the connection on requests that are on their way.
// Their failure would end the connection before the alert was read, and nobody knew why.
//
// It may stand on either side of TLS. Its methods may be called at the same time.
type Hearing struct {
	net.Conn

	reading sync.Mutex
	kept    []byte // guarded by reading
	err     error  // guarded by reading: what follows; nil while reads go on

	once sync.Once
	over chan struct{} // closed when nothing more comes from the peer
}

// HearOut returns conn, heard out.
func HearOut(conn net.Conn) *Hearing {
	return &Hearing{Conn: conn, over: make(chan struct{})}
}

// Read implements net.Conn.
func (h *Hearing) Read(b []byte) (int, error) {
	h.reading.Lock()
	defer h.reading.Unlock()
	switch {
	case len(h.kept) > 0:
		n := copy(b, h.kept)
		h.kept = h.kept[n:]
		return n, nil
	case h.err != nil:
		return 0, h.err
	}
	n, err := h.Conn.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		h.end()
	}
	return n, err
}

// Write implements net.Conn.
func (h *Hearing) Write(b []byte) (int, error) {
	n, err := h.Conn.Write(b)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		h.hear()
	}
	return n, err
}

// hear takes in what is left to read, after the read that is under way.
func (h *Hearing) hear() {
	_ = h.SetReadDeadline(time.Now().Add(hearingLimit)) // without one the reads end too: the connection is broken
	h.reading.Lock()
	defer h.reading.Unlock()
	var chunk [1024]byte
	for h.err == nil && len(h.kept) < longestWord {
		n, err := h.Conn.Read(chunk[:])
		h.kept, h.err = append(h.kept, chunk[:n]...), err
	}
	h.end()
}

// Close implements net.Conn.
func (h *Hearing) Close() error {
	h.end()
	return h.Conn.Close()
}

// Wait waits until nothing more comes from the peer, for 250 ms at most, and reports whether that is so.
func (h *Hearing) Wait() bool {
	timer := time.NewTimer(hearingLimit)
	defer timer.Stop()
	select {
	case <-h.over:
		return true
	case <-timer.C:
		return false
	}
}

func (h *Hearing) end() { h.once.Do(func() { close(h.over) }) }

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// overview is what the observers of a cluster share: what each peer said last. While there are observers it asks each peer
// once in an interval for all of them together, and not again before the peer has answered; they take what is known and
// wait for nobody. It is safe for concurrent use.
type overview struct {
	peers    *peers
	interval time.Duration
	news     signal // that something is known which was not

	mu        sync.Mutex
	observers int
	end       context.CancelFunc // ends the asking; nil while there are no observers
	closed    bool
	found     []*peerServer          // by the last lookup that found any
	failures  []failure              // of the last lookup
	said      map[*peerServer]saying // what is known of each that was found
}

// saying is what a peer said last, and whether it is being asked again.
type saying struct {
	answer  answer
	heard   bool // there is an answer
	pending bool
}

func newOverview(ps *peers, interval time.Duration) *overview {
	return &overview{peers: ps, interval: max(interval, time.Millisecond), said: make(map[*peerServer]saying)}
}

// join counts an observer in; the first one makes the asking begin.
func (o *overview) join() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.observers++; o.observers > 1 || o.closed {
		return
	}
	var life context.Context
	life, o.end = context.WithCancel(context.Background())
	go o.run(life)
}

// leave counts it out; with the last one the asking ends, and what it brought is forgotten: it grows old.
func (o *overview) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.observers--; o.observers == 0 {
		o.stopLocked()
	}
}

// close ends the asking for good.
func (o *overview) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.stopLocked()
}

func (o *overview) stopLocked() {
	if o.end != nil {
		o.end()
	}
	o.end, o.found, o.failures = nil, nil, nil
	clear(o.said)
}

// next returns a channel that is closed when there is news; nil, for ever, where there is no overview.
func (o *overview) next() <-chan struct{} {
	if o == nil {
		return nil
	}
	return o.news.next()
}

// known returns the clients of the peers and the failures, as far as anything is known of them. A peer that is being asked
// stands with what it said before. The clients are shared, and only read.
func (o *overview) known() ([]*clientspb.ConnectedClient, []failure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked, answers := make([]*peerServer, 0, len(o.found)), make([]answer, 0, len(o.found))
	for _, p := range o.found {
		if s := o.said[p]; s.heard {
			asked, answers = append(asked, p), append(answers, s.answer)
		}
	}
	once, failures := o.peers.join(asked, answers, append([]failure(nil), o.failures...))
	return clientsOf(once), failures
}

// run asks in each interval until its life ends.
func (o *overview) run(life context.Context) {
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for {
		o.round(life)
		select {
		case <-ticker.C:
		case <-life.Done():
			return
		}
	}
}

// round looks the peers up, and asks those that are not being asked already. It does not wait for their answers.
func (o *overview) round(life context.Context) {
	ctx, cancel := context.WithTimeout(life, o.peers.config.Timeout)
	defer cancel()
	found, failures := o.peers.find(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if life.Err() != nil {
		return
	}
	o.failures = failures
	if len(found) > 0 {
		o.found = found
	}
	said := make(map[*peerServer]saying, len(o.found))
	for _, p := range o.found {
		s := o.said[p]
		if !s.pending {
			s.pending = true
			go o.question(life, p)
		}
		said[p] = s
	}
	o.said = said
	o.news.send()
}

// question asks one peer and takes its answer down.
func (o *overview) question(life context.Context, p *peerServer) {
	ctx, cancel := context.WithTimeout(life, o.peers.config.Timeout)
	defer cancel()
	a := p.ask(ctx)
	if life.Err() == nil {
		p.note(a.err, o.peers.logger)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, found := o.said[p]; !found || life.Err() != nil {
		return // it is gone, or nobody wants to know any more
	}
	o.said[p] = saying{answer: a, heard: true}
	o.news.send()
}

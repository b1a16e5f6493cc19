// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/discover"
)

// PeersConfig says who the other servers of a cluster are. The zero value is a server that knows of no other ones. It is
// copied on use.
type PeersConfig struct {
	// Resolver finds the servers; nil means none. They may include this server itself, under whatever name: a server knows
	// its own answer. evenkeel.Resolver makes one of a connection string.
	Resolver discover.Resolver
	// TLS are the settings for connections to them; nil means the roots of the system.
	TLS *tls.Config
	// Plaintext connects without TLS.
	Plaintext bool
	// Tokens gives what the other servers ask callers for; nil means that they ask for nothing.
	Tokens *credential.Source
	// Self is where this server is found, as "host:port". It saves the call to itself, and is needed only where stock
	// servers answer in this server's name.
	Self []string
	// Timeout bounds the question to all of them together, the lookup included. Default 2 s.
	Timeout time.Duration
}

// What one question to the cluster may take.
const (
	maxPeers         = 256      // beyond it servers are not asked, and reported
	questionsAtATime = 4        // to one peer, from callers; more of them wait
	maxPeerAnswer    = 64 << 20 // bytes, a list of some hundred thousand clients
)

// peers asks the other servers of a cluster for their clients. Its connections are kept from one question to the next, and
// are those of the servers that were found last. It is safe for concurrent use.
//
// Each peer is asked by itself, with bounds of its own: one that hangs costs nobody the answers of the others.
type peers struct {
	config   PeersConfig
	resolver discover.Resolver
	instance string // what this server calls itself towards peers
	logger   *slog.Logger
	overview *overview // what observers see

	mu     sync.Mutex
	known  map[string]*peerServer // by address
	closed bool
}

// failure is a part of the cluster that could not be asked.
type failure struct {
	where string // "host:port", or what was being done
	err   error
}

// newPeers makes the peers of a registry whose observers get a list at most once in an interval.
func newPeers(config PeersConfig, instance string, logger *slog.Logger, interval time.Duration) *peers {
	config.Timeout = positiveOr(config.Timeout, 2*time.Second)
	config.Self = slices.Clone(config.Self)
	ps := &peers{
		config: config, resolver: discover.LastGood(config.Resolver), instance: instance, logger: logger,
		known: make(map[string]*peerServer),
	}
	ps.overview = newOverview(ps, interval/2)
	return ps
}

// ask returns the clients of all other servers, and the servers that did not answer. It ends with the caller and after the
// timeout.
func (ps *peers) ask(caller context.Context) ([]*clientspb.ConnectedClient, []failure) {
	answers, failures := ps.answers(caller)
	return clientsOf(answers), failures
}

// clientsOf puts the clients of several servers together.
func clientsOf(answers []answer) []*clientspb.ConnectedClient {
	var items []*clientspb.ConnectedClient
	for _, a := range answers {
		items = append(items, a.items...)
	}
	return items
}

// answers returns what each of the other servers said that did answer, and those that did not. It ends with the caller and
// after the timeout.
func (ps *peers) answers(caller context.Context) ([]answer, []failure) {
	ctx, cancel := context.WithTimeout(caller, ps.config.Timeout)
	defer cancel()
	asked, failures := ps.find(ctx)
	answers := make([]answer, len(asked))
	var questions sync.WaitGroup
	for i, p := range asked {
		questions.Go(func() { answers[i] = p.askInTurn(ctx) })
	}
	questions.Wait()
	if caller.Err() == nil { // one that has left, or had less time, says nothing about the peers
		for i, a := range answers {
			asked[i].note(a.err, ps.logger)
		}
	}
	return ps.join(asked, answers, failures)
}

// join puts the answers together. A server that answers under several names counts once, and this one not at all.
func (ps *peers) join(asked []*peerServer, answers []answer, failures []failure) ([]answer, []failure) {
	var once []answer
	seen := map[string]bool{ps.instance: true}
	for i, a := range answers {
		switch {
		case a.err != nil:
			failures = append(failures, failure{asked[i].addr, a.err})
		case a.instance == "" || !seen[a.instance]:
			seen[a.instance] = true
			once = append(once, a)
		}
	}
	return once, failures
}

// find returns the peers to ask, and drops the connections to those that are no longer there. The lookup gets half of the
// time: with a name server that hangs, the peers found before are still asked.
func (ps *peers) find(ctx context.Context) ([]*peerServer, []failure) {
	lookup, cancel := context.WithTimeout(ctx, ps.config.Timeout/2)
	defer cancel()
	endpoints, err := ps.resolver.Resolve(lookup)
	var failures []failure
	if err != nil {
		failures = append(failures, failure{"lookup", err})
	}
	if len(endpoints) > maxPeers {
		failures = append(failures, failure{"peers", fmt.Errorf("%d of %d are not asked", len(endpoints)-maxPeers, len(endpoints))})
		endpoints = endpoints[:maxPeers]
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.closed {
		return nil, []failure{{"peers", ErrClosed}}
	}
	if len(endpoints) == 0 {
		return nil, failures // it says nothing about the peers that are known
	}
	found := make(map[string]*peerServer, len(endpoints))
	var asked []*peerServer
	for _, e := range endpoints {
		addr := e.Addr()
		if found[addr] != nil || slices.Contains(ps.config.Self, addr) {
			continue
		}
		p, err := ps.peerLocked(addr)
		if err != nil {
			failures = append(failures, failure{addr, err})
			continue
		}
		p.endpoint.Store(&e)
		found[addr] = p
		asked = append(asked, p)
	}
	for addr, p := range ps.known {
		if found[addr] == nil {
			p.close()
		}
	}
	ps.known = found
	return asked, failures
}

func (ps *peers) peerLocked(addr string) (*peerServer, error) {
	if p := ps.known[addr]; p != nil {
		return p, nil
	}
	return newPeer(addr, ps.config)
}

// close closes the connections, which ends the questions on them.
func (ps *peers) close() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.closed = true
	ps.overview.close()
	for _, p := range ps.known {
		p.close()
	}
	ps.known = nil
}

// wantsLocal reports whether a caller asks for the clients of this server only. That is how servers ask each other, so no
// question goes round in circles.
func wantsLocal(ctx context.Context) bool {
	asked, _ := metadata.FromIncomingContext(ctx)
	return slices.Contains(asked.Get(contract.ScopeHeader), contract.ScopeLocal)
}

// failureHeader tells the caller which parts of the cluster are missing from the answer.
func failureHeader(failures []failure) metadata.MD {
	md := metadata.MD{}
	for i, f := range failures {
		if i == maxFailuresTold {
			md.Append(contract.PeerErrorHeader, fmt.Sprintf("peers: %d more did not answer", len(failures)-i))
			break
		}
		md.Append(contract.PeerErrorHeader, headerText(f.where+": "+f.err.Error()))
	}
	return md
}

// What the header says of failures: so many, each with so many bytes.
const (
	maxFailuresTold = 16
	maxFailureText  = 200
)

// headerText makes a text fit for a header: printable ASCII, and bounded.
func headerText(text string) string {
	safe := make([]byte, 0, min(len(text), maxFailureText))
	for _, c := range text {
		if len(safe) == maxFailureText {
			break
		}
		if c < ' ' || c > '~' {
			c = '?'
		}
		safe = append(safe, byte(c))
	}
	return string(safe)
}

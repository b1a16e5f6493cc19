// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// server is how one server of a fakeProber behaves.
type server struct {
	count  int
	addr   netip.AddrPort
	after  time.Duration // before it answers a probe
	silent bool          // does not answer at all
	deaf   bool          // does not answer, and its probe does not heed the context until released
	err    error

	reserveSilent bool
	reserveErr    error
}

// fakeProber answers for the servers by their host. A server that is not in it answers 0 at once.
type fakeProber struct {
	servers map[string]server
	release chan struct{} // lets the probes of deaf servers go
	ours    bool          // the servers tell their rate, which is 0

	mu       sync.Mutex
	probed   []string // hosts, in the order of the calls
	reserved []discover.Endpoint
	active   int
	most     int // probes at a time
}

func (p *fakeProber) Count(ctx context.Context, endpoint discover.Endpoint) (balance.Count, error) {
	p.mu.Lock()
	p.probed = append(p.probed, endpoint.Host)
	s := p.servers[endpoint.Host]
	p.active++
	p.most = max(p.most, p.active)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.active--
		p.mu.Unlock()
	}()
	if s.deaf {
		<-p.release
	}
	if s.silent {
		<-ctx.Done()
		return balance.Count{Addr: s.addr}, fmt.Errorf("%s: %w", endpoint.Host, ctx.Err())
	}
	if s.after > 0 {
		select {
		case <-time.After(s.after):
		case <-ctx.Done():
			return balance.Count{Addr: s.addr}, fmt.Errorf("%s: %w", endpoint.Host, ctx.Err())
		}
	}
	count := balance.Count{Connections: s.count, Addr: s.addr}
	if p.ours {
		count.Load = &balance.Load{}
	}
	return count, s.err
}

func (p *fakeProber) Reserve(ctx context.Context, endpoint discover.Endpoint, _ balance.ReserveRequest) (balance.Reservation, error) {
	p.mu.Lock()
	p.reserved = append(p.reserved, endpoint)
	s := p.servers[endpoint.Host]
	p.mu.Unlock()
	if s.deaf {
		<-p.release
	}
	if s.reserveSilent {
		<-ctx.Done()
		return balance.Reservation{}, ctx.Err()
	}
	return balance.Reservation{Made: s.reserveErr == nil}, s.reserveErr
}

func (p *fakeProber) set(host string, s server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[host] = s
}

// calls returns which hosts were probed, sorted, and which were asked for a reservation, and forgets them.
func (p *fakeProber) calls() (probed []string, reserved []discover.Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	probed, reserved = p.probed, p.reserved
	p.probed, p.reserved = nil, nil
	slices.Sort(probed)
	return probed, reserved
}

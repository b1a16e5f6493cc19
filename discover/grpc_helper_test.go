// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/discover"
)

// script is a builder of grpc-go resolvers, and the resolver, that does as a test says.
type script struct {
	build      func(n int) error // called with the number of the build, from 1
	resolveNow func()
	close      func()

	mu      sync.Mutex
	builds  int
	target  resolver.Target
	options resolver.BuildOptions
	cc      resolver.ClientConn
	hints   int
	closes  int
}

func (*script) Scheme() string { return "script" }

func (s *script) Build(target resolver.Target, cc resolver.ClientConn, options resolver.BuildOptions) (resolver.Resolver, error) {
	s.mu.Lock()
	s.builds++
	n := s.builds
	s.target, s.options, s.cc = target, options, cc
	s.mu.Unlock()
	if s.build != nil {
		if err := s.build(n); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *script) ResolveNow(resolver.ResolveNowOptions) {
	s.mu.Lock()
	s.hints++
	s.mu.Unlock()
	if s.resolveNow != nil {
		s.resolveNow()
	}
}

func (s *script) Close() {
	s.mu.Lock()
	s.closes++
	s.mu.Unlock()
	if s.close != nil {
		s.close()
	}
}

// conn is what the resolver reports to; it was built.
func (s *script) conn() resolver.ClientConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cc
}

// seen returns how often the resolver was built, hinted and closed.
func (s *script) seen() [3]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return [3]int{s.builds, s.hints, s.closes}
}

// push gives the source a set of addresses.
func (s *script) push(addrs ...string) error { return s.conn().UpdateState(stateOf(addrs...)) }

// stateOf is a state of endpoints of one address each.
func stateOf(addrs ...string) resolver.State {
	var state resolver.State
	for _, addr := range addrs {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	return state
}

func fromGRPC(t *testing.T, builder resolver.Builder, target string, config discover.GRPCConfig) *discover.GRPCSource {
	t.Helper()
	source, err := discover.FromGRPC(builder, target, config)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func closeSource(t *testing.T, source *discover.GRPCSource) {
	t.Helper()
	if err := source.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// wantHosts checks the endpoints by "host:port".
func wantHosts(t *testing.T, got []discover.Endpoint, want ...string) {
	t.Helper()
	var hosts []string
	for _, e := range got {
		hosts = append(hosts, e.Addr())
	}
	if diff := cmp.Diff(want, hosts); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
}

// wantSourceError checks that err is a *SourceError of one kind alone, nil for none.
func wantSourceError(t *testing.T, err, kind error) {
	t.Helper()
	if _, ok := errors.AsType[*discover.SourceError](err); !ok {
		t.Fatalf("got %T %v, want a *SourceError", err, err)
	}
	for _, other := range []error{discover.ErrNoSuchName, discover.ErrNoRecords, discover.ErrServerFailed, discover.ErrTimeout} {
		if got, want := errors.Is(err, other), other == kind; got != want { //nolint:errorlint // identity is meant
			t.Errorf("errors.Is(%q, %q) = %v, want %v", err, other, got, want)
		}
	}
}

// told is what a Watch has told.
type told struct {
	endpoints []discover.Endpoint
	err       error
}

// watch watches until ctx ends and gives all that it is told to the channel. ended has the result.
func watch(ctx context.Context, watcher discover.Watcher) (changes <-chan told, ended <-chan error) {
	heard, result := make(chan told, 64), make(chan error, 1)
	go func() {
		result <- watcher.Watch(ctx, func(endpoints []discover.Endpoint, err error) { heard <- told{endpoints, err} })
	}()
	return heard, result
}

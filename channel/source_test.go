// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/channel"
	_ "github.com/evenkeel-go/evenkeel/channel/register"
	"github.com/evenkeel-go/evenkeel/discover"
)

const ownTarget = "evenkeel:///servers"

// endpoint is a server as a source names it.
func (f *fleet) endpoint(i int) discover.Endpoint {
	return discover.Endpoint{
		Host: f.addr(i).String(), Port: f.port, Addrs: []netip.AddrPort{netip.AddrPortFrom(f.addr(i), f.port)},
	}
}

// slicedSource is told of its endpoints in slices, as an orchestrator tells them, and pushes what all slices say together.
type slicedSource struct {
	closed atomic.Bool

	mu      sync.Mutex
	slices  map[string][]discover.Endpoint
	changed chan struct{} // closed and replaced
}

func newSlicedSource() *slicedSource {
	return &slicedSource{slices: make(map[string][]discover.Endpoint), changed: make(chan struct{})}
}

func (s *slicedSource) put(name string, endpoints ...discover.Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slices[name] = endpoints
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *slicedSource) merged() ([]discover.Endpoint, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byAddr := make(map[string]discover.Endpoint)
	for _, slice := range s.slices {
		for _, e := range slice {
			byAddr[e.Addr()] = e
		}
	}
	return slices.Collect(maps.Values(byAddr)), s.changed
}

func (s *slicedSource) Resolve(context.Context) ([]discover.Endpoint, error) {
	endpoints, _ := s.merged()
	return endpoints, nil
}

func (s *slicedSource) Watch(ctx context.Context, changed func([]discover.Endpoint, error)) error {
	for {
		endpoints, next := s.merged()
		changed(endpoints, nil)
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *slicedSource) Close() error {
	s.closed.Store(true)
	return nil
}

func TestSlicesOfASourceThatPushesAreOneSet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	source := newSlicedSource()
	source.put("a", f.endpoint(1), f.endpoint(2))
	source.put("b", f.endpoint(2), f.endpoint(3)) // one server may stand in two for a moment
	config := quick()
	config.Resolver = source
	heard := hear(&config)
	c := open(t, config)
	conn := dial(t, c, ownTarget)
	reaches(t, conn, f.at(1), f.at(2), f.at(3))
	source.put("b", f.endpoint(3), f.endpoint(4)) // the other slice is not touched
	reaches(t, conn, f.at(1), f.at(2), f.at(3), f.at(4))
	source.put("a")
	source.put("b")
	heard.wait(t, "an empty set", func() bool { return heard.resolutions[len(heard.resolutions)-1].Err != nil })
	tally(t, conn, 20) // which removes nothing
	source.put("b", f.endpoint(4))
	reaches(t, conn, f.at(4))
	_ = conn.Close()
	_ = c.Close()
	if source.closed.Load() {
		t.Error("the channel has closed the source of its user")
	}
}

// badSource does what its function does.
type badSource func(ctx context.Context) ([]discover.Endpoint, error)

func (s badSource) Resolve(ctx context.Context) ([]discover.Endpoint, error) { return s(ctx) }

// muteError is an error that can do nothing.
type muteError struct{}

func (muteError) Error() string { panic("no words") }

func TestBadSourceHarmsNothingElse(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	tests := []struct {
		name   string
		source badSource
	}{
		{"panics", func(context.Context) ([]discover.Endpoint, error) { panic("no") }},
		{"blocks for ever", func(context.Context) ([]discover.Endpoint, error) { <-release; return nil, nil }},
		{"finds nothing", func(context.Context) ([]discover.Endpoint, error) { return nil, nil }},
		{"returns a nil pointer as its error", func(context.Context) ([]discover.Endpoint, error) {
			return nil, (*discover.LookupError)(nil)
		}},
		{"returns an error that panics", func(context.Context) ([]discover.Endpoint, error) { return nil, muteError{} }},
		{"ends its goroutine", func(context.Context) ([]discover.Endpoint, error) { runtime.Goexit(); return nil, nil }},
		{"finds a port of 0", func(context.Context) ([]discover.Endpoint, error) {
			return []discover.Endpoint{{Host: "127.0.0.1"}}, nil
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 1)
			config := quick()
			config.Resolver = test.source
			c := open(t, config)
			good, bad := dial(t, c, f.target()), dial(t, c, ownTarget)
			bad.Connect()
			tally(t, good, 20)
			ctx, cancel := context.WithTimeout(t.Context(), patience/20)
			defer cancel()
			if _, err := who(ctx, bad); status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("got %v, want Unavailable, or its deadline exceeded", err)
			}
			closesSoon(t, "the channel of grpc-go", func() { _ = bad.Close() })
			tally(t, good, 20)
			closesSoon(t, "the channel", func() { _ = c.Close() })
		})
	}
}

func TestPanicOfASourceIsReportedAndTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	var calls atomic.Int64
	config := quick()
	config.Resolver = badSource(func(context.Context) ([]discover.Endpoint, error) {
		if calls.Add(1) == 1 {
			panic("no")
		}
		return []discover.Endpoint{f.endpoint(1)}, nil
	})
	heard := hear(&config)
	conn := dial(t, open(t, config), ownTarget)
	if _, err := who(testContext(t), conn); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("got %v, want Unavailable because the source panicked", err)
	}
	serves(t, conn)
	if got := heard.firstClass(); got != discover.ClassPanic {
		t.Errorf("got class %q of the first resolution, want %q", got, discover.ClassPanic)
	}
}

func TestSourceThatEndsItsGoroutineIsAskedAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	var calls atomic.Int64
	config := quick()
	config.Resolver = badSource(func(context.Context) ([]discover.Endpoint, error) {
		if calls.Add(1) == 1 {
			runtime.Goexit()
		}
		return []discover.Endpoint{f.endpoint(1)}, nil
	})
	serves(t, dial(t, open(t, config), ownTarget))
}

// TestEndpointsOfEarlierAreBetterThanNone has a source that is down and has kept what it found before.
func TestEndpointsOfEarlierAreBetterThanNone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	var stale atomic.Int64
	stale.Store(1)
	config := quick()
	config.Resolver = badSource(func(context.Context) ([]discover.Endpoint, error) {
		cause := &discover.SourceError{Source: "registry", Kind: discover.ErrServerFailed}
		kept := []discover.Endpoint{f.endpoint(int(stale.Load()))}
		return kept, &discover.StaleError{Cause: cause, At: time.Now().Add(-time.Hour)}
	})
	heard := hear(&config)
	conn := dial(t, open(t, config), ownTarget)
	tally(t, conn, 4)
	heard.wait(t, "the failure", func() bool {
		first := heard.resolutions[0]
		return first.Endpoints == 1 && first.Class == discover.ClassServerFailed && first.Err != nil
	})
	// Of two sets that are old, the one that is in use stays.
	stale.Store(2)
	heard.resolved(t, 2)
	if got := tally(t, conn, 10); got[f.at(1)] != 10 {
		t.Errorf("got %v, want all calls at %s", got, f.at(1))
	}
}

// TestFiveThousandEndpointsHarmNothingElse does not run beside others: it takes all of the machine for a while.
func TestFiveThousandEndpointsHarmNothingElse(t *testing.T) {
	f := newFleet(t, 1)
	many := make([]discover.Endpoint, 5000)
	for i := range many {
		many[i] = f.endpoint(i + 1) // of which one is a server
	}
	config := channel.Config{}
	config.Resolver = badSource(func(context.Context) ([]discover.Endpoint, error) { return slices.Clone(many), nil })
	heard := hear(&config)
	c := open(t, config)
	good, huge := dial(t, c, f.target()), dial(t, c, ownTarget)
	huge.Connect()
	heard.wait(t, "the set", func() bool { return len(heard.changes) > 0 && len(heard.changes[0].Added) == 5000 })
	tally(t, good, 100)
	if got := serves(t, huge); got != f.at(1) {
		t.Errorf("got an answer of %s, want %s", got, f.at(1))
	}
}

func TestAddressesAndSocketsStayWithGRPC(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	f.run(newServer("unix"), listener)
	config := quick()
	heard := hear(&config)
	c := open(t, config)
	for target, want := range map[string]string{
		"dns:///" + f.at(1): f.at(1), f.at(1): f.at(1), "passthrough:///" + f.at(1): f.at(1),
		"dns://" + f.dns.Addr() + "/" + f.at(1): f.at(1), "unix://" + path: "unix", "unix:" + path: "unix",
	} {
		conn := dial(t, c, target)
		if got, err := who(testContext(t), conn); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want an answer of %s", target, got, err, want)
		}
	}
	if got := f.dns.Queries(); len(got) != 0 {
		t.Errorf("got %d queries, want none for addresses and sockets", len(got))
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	if len(heard.resolutions) != 0 {
		t.Errorf("got resolutions %+v, want none", heard.resolutions)
	}
}

// TestRegisteredSchemesNeedNoDialOptions uses package register, which the imports above have.
func TestRegisteredSchemesNeedNoDialOptions(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.name(1, 2)
	f.dns.SetSRV(srvName, f.record(1, 0, 0), f.record(2, 0, 0))
	f.dns.SetSRV("_chronicle._tcp.fleet.test", f.record(1, 0, 0), f.record(2, 0, 0))
	// A list of hosts with ports is no URL, and without our dns resolver it is the name of a host.
	for target, want := range map[string][]string{
		f.srvTarget():            {f.at(1), f.at(2)}, // by our policy: pick_first would stay with one
		"chronicle://" + f.at(1): {f.at(1)},
		"chronicle+srv://fleet.test?srvNameServer=" + f.dns.Addr(): {f.at(1), f.at(2)},
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			reaches(t, conn, want...)
		})
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/evenkeel-go/evenkeel/discover"
)

var errPlanned = errors.New("planned")

// These hold by the compiler's word.
var (
	_ discover.Watcher = (*discover.GRPCSource)(nil)
	_ discover.Hinter  = (*discover.GRPCSource)(nil)
)

func TestFromGRPCWaitsForTheFirstSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(script)
		source := fromGRPC(t, s, "x", discover.GRPCConfig{})
		defer closeSource(t, source)
		synctest.Wait()
		if got := s.seen(); got != [3]int{} {
			t.Errorf("before the first Resolve: got builds, hints, closes %v, want none", got)
		}
		began := time.Now()
		time.AfterFunc(3*time.Second, func() { _ = s.push("10.0.0.1:1", "10.0.0.2:1") })
		endpoints, err := source.Resolve(t.Context())
		if err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("got %v after %v, want no error after 3 s", err, time.Since(began))
		}
		wantHosts(t, endpoints, "10.0.0.1:1", "10.0.0.2:1")
		if got := s.seen(); got != [3]int{1, 0, 0} {
			t.Errorf("got builds, hints, closes %v, want one build and no hint", got)
		}
		endpoints[0].Addrs[0] = netip.AddrPort{} // the caller's to change
		endpoints, err = source.Resolve(t.Context())
		if err != nil || endpoints[0].Addrs[0] != netip.MustParseAddrPort("10.0.0.1:1") {
			t.Errorf("got %v, %v; want the set unchanged by what a caller did to its copy", endpoints, err)
		}
	})
}

func TestFromGRPCWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		ctx   func(ctx context.Context) (context.Context, context.CancelFunc)
		kind  error
		cause error
		after time.Duration
	}{
		{"no deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(ctx)
		}, discover.ErrTimeout, context.DeadlineExceeded, 5 * time.Second},
		{"the caller's deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, discover.ErrTimeout, context.DeadlineExceeded, time.Second},
		{"cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(2*time.Second, cancel)
			return ctx, cancel
		}, nil, context.Canceled, 2 * time.Second},
		{"cancelled before", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, nil, context.Canceled, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := fromGRPC(t, new(script), "x", discover.GRPCConfig{})
				defer closeSource(t, source)
				ctx, cancel := tt.ctx(t.Context())
				defer cancel()
				began := time.Now()
				endpoints, err := source.Resolve(ctx)
				wantSourceError(t, err, tt.kind)
				if len(endpoints) > 0 || !errors.Is(err, tt.cause) || time.Since(began) != tt.after {
					t.Errorf("got %v, %v after %v; want nothing and %v after %v", endpoints, err, time.Since(began), tt.cause, tt.after)
				}
				var timeout interface{ Timeout() bool }
				if !errors.As(err, &timeout) || timeout.Timeout() != (tt.kind != nil) {
					t.Errorf("Timeout of %v is not %v", err, tt.kind != nil)
				}
			})
		})
	}
}

func TestFromGRPCTellsTheErrorOfTheResolver(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		report func(cc resolver.ClientConn)
		kind   error
		want   string
	}{
		{"an error", func(cc resolver.ClientConn) { cc.ReportError(errPlanned) }, discover.ErrServerFailed, "planned"},
		{"no error", func(cc resolver.ClientConn) { cc.ReportError(nil) }, discover.ErrServerFailed, "did not say"},
		{"an empty set", func(cc resolver.ClientConn) { _ = cc.UpdateState(resolver.State{}) }, discover.ErrNoRecords, "no endpoints"},
		{"no addresses", func(cc resolver.ClientConn) { cc.NewAddress(nil) }, discover.ErrNoRecords, "no endpoints"}, //nolint:staticcheck // resolvers still use it
		{"endpoints without addresses", func(cc resolver.ClientConn) {
			_ = cc.UpdateState(resolver.State{Endpoints: make([]resolver.Endpoint, 2)})
		}, discover.ErrNoRecords, "no endpoints"},
		{"addresses of no use", func(cc resolver.ClientConn) {
			_ = cc.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: "/run/socket"}}})
		}, discover.ErrNoRecords, "host:port"},
		{"a service config alone, as xds gives it", func(cc resolver.ClientConn) {
			_ = cc.UpdateState(resolver.State{ServiceConfig: cc.ParseServiceConfig("{}")})
		}, discover.ErrNoRecords, "service config"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := new(script)
				source := fromGRPC(t, s, "x", discover.GRPCConfig{})
				defer closeSource(t, source)
				time.AfterFunc(time.Second, func() { tt.report(s.conn()) })
				endpoints, err := source.Resolve(t.Context())
				wantSourceError(t, err, tt.kind)
				if len(endpoints) > 0 || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "script:///x") {
					t.Errorf("got %v, %v; want nothing, and %q of the target", endpoints, err, tt.want)
				}
				if err := s.push("10.0.0.1:1"); err != nil {
					t.Fatal(err)
				}
				good, err := source.Resolve(t.Context())
				if err != nil {
					t.Errorf("after a good set: %v", err)
				}
				wantHosts(t, good, "10.0.0.1:1")
				came := time.Now()
				time.Sleep(time.Minute)
				tt.report(s.conn())
				old, err := source.Resolve(t.Context())
				wantHosts(t, old, "10.0.0.1:1")
				stale, ok := errors.AsType[*discover.StaleError](err)
				if !ok || !stale.At.Equal(came.Add(-100*time.Millisecond)) {
					t.Fatalf("got %v, want a *StaleError with the time of the good set", err)
				}
				wantSourceError(t, stale.Cause, tt.kind)
			})
		})
	}
}

// Resolvers that look things up look again when the policy of grpc-go returns an error for a set.
func TestFromGRPCRefusesASetOfNoUse(t *testing.T) {
	t.Parallel()
	s := new(script)
	source := fromGRPC(t, s, "x", discover.GRPCConfig{})
	defer closeSource(t, source)
	s.build = func(int) error {
		if err := s.push(); err == nil {
			t.Error("an empty set: got no error")
		}
		if err := s.push("10.0.0.1:1", "nonsense"); err != nil {
			t.Errorf("a set that is partly of use: got %v", err)
		}
		return nil
	}
	endpoints, err := source.Resolve(lateContext(t))
	wantHosts(t, endpoints, "10.0.0.1:1")
	if _, ok := errors.AsType[*discover.PartialError](err); !ok {
		t.Errorf("got %v, want a *PartialError", err)
	}
}

func TestFromGRPCSetsServeUnderLastGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		builder := manual.NewBuilderWithScheme("manual")
		source := fromGRPC(t, builder, "x", discover.GRPCConfig{})
		defer closeSource(t, source)
		resolver := discover.LastGood(source)
		builder.InitialState(stateOf("10.0.0.1:1"))
		if endpoints, err := resolver.Resolve(t.Context()); err != nil || len(endpoints) != 1 {
			t.Errorf("got %v, %v; want the set", endpoints, err)
		}
		builder.CC().ReportError(errPlanned)
		endpoints, err := resolver.Resolve(t.Context())
		wantHosts(t, endpoints, "10.0.0.1:1")
		if _, ok := errors.AsType[*discover.StaleError](err); !ok || !errors.Is(err, errPlanned) {
			t.Errorf("got %v, want a *StaleError with the cause", err)
		}
	})
}

func TestFromGRPCHints(t *testing.T) {
	t.Parallel()
	const longest = 100 * time.Millisecond
	tests := []struct {
		name      string
		freshWait time.Duration
		answer    time.Duration // after the hint; negative for none
		want      string
		after     time.Duration
	}{
		{"answered at once", 0, 0, "10.0.0.2:1", 0},
		{"answered soon", 0, longest / 2, "10.0.0.2:1", longest / 2},
		{"answered too late", 0, 2 * longest, "10.0.0.1:1", longest},
		{"not heeded", 0, -1, "10.0.0.1:1", longest},
		{"a longer wait", time.Second, 900 * time.Millisecond, "10.0.0.2:1", 900 * time.Millisecond},
		{"a wait beyond the limit of a lookup", time.Minute, -1, "10.0.0.1:1", 5 * time.Second},
		{"no wait", -1, longest / 2, "10.0.0.1:1", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := new(script)
				s.build = func(int) error { return s.push("10.0.0.1:1") }
				s.resolveNow = func() {
					if tt.answer >= 0 {
						time.AfterFunc(tt.answer, func() { _ = s.push("10.0.0.2:1") })
					}
				}
				source := fromGRPC(t, s, "x", discover.GRPCConfig{FreshWait: tt.freshWait})
				defer closeSource(t, source)
				if _, err := source.Resolve(t.Context()); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				endpoints, err := source.Resolve(t.Context())
				if err != nil || time.Since(began) != tt.after {
					t.Errorf("got %v after %v, want no error after %v", err, time.Since(began), tt.after)
				}
				wantHosts(t, endpoints, tt.want)
				synctest.Wait()
				if got := s.seen(); got[1] != 1 {
					t.Errorf("got %d hints, want 1", got[1])
				}
				time.Sleep(time.Second) // let late answers come before Close
			})
		})
	}
}

func TestFromGRPCWaitForNewsEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(script)
		s.build = func(int) error { return s.push("10.0.0.1:1") }
		source := fromGRPC(t, s, "x", discover.GRPCConfig{FreshWait: time.Second})
		defer closeSource(t, source)
		if _, err := source.Resolve(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		endpoints, err := source.Resolve(ctx)
		if err != nil {
			t.Errorf("deadline: got %v, want what is known", err)
		}
		wantHosts(t, endpoints, "10.0.0.1:1")
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if endpoints, err := source.Resolve(ctx); !errors.Is(err, context.Canceled) || len(endpoints) > 0 {
			t.Errorf("cancelled: got %v, %v; want context.Canceled", endpoints, err)
		}
	})
}

func TestFromGRPCMayBeUsedByManyAtOnce(t *testing.T) {
	t.Parallel()
	s := new(script)
	s.build = func(int) error { return s.push("10.0.0.1:1") }
	s.resolveNow = func() { _ = s.push("10.0.0.1:1", "10.0.0.2:1") }
	source := fromGRPC(t, s, "x", discover.GRPCConfig{FreshWait: time.Microsecond})
	ctx := lateContext(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				if endpoints, err := source.Resolve(ctx); err != nil || len(endpoints) == 0 {
					t.Errorf("got %v, %v; want a set", endpoints, err)
				}
			}
		})
		group.Go(func() {
			watching, stop := context.WithCancel(ctx)
			err := source.Watch(watching, func([]discover.Endpoint, error) { stop() })
			if !errors.Is(err, context.Canceled) || ctx.Err() != nil {
				t.Errorf("Watch: got %v, want the end that a change brought", err)
			}
		})
	}
	group.Wait()
	for range 4 {
		group.Go(func() { closeSource(t, source) })
	}
	group.Wait()
	if got := s.seen(); got[0] != 1 || got[2] != 1 {
		t.Errorf("got builds, hints, closes %v; want one build and one close", got)
	}
}

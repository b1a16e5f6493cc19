// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/discover"
)

func TestWatchTellsEachChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(script)
		source := fromGRPC(t, s, "x", discover.GRPCConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		changes, ended := watch(ctx, source)
		others, othersEnded := watch(ctx, source)
		synctest.Wait() // the source has been started
		step := func(name string, do func(), wantErr error, want ...string) {
			t.Helper()
			do()
			synctest.Wait()
			for _, heard := range []<-chan told{changes, others} {
				select {
				case got := <-heard:
					wantHosts(t, got.endpoints, want...)
					if !errors.Is(got.err, wantErr) {
						t.Errorf("%s: got error %v, want %v", name, got.err, wantErr)
					}
				default:
					t.Errorf("%s: nothing was told", name)
				}
			}
		}
		push := func(addrs ...string) func() { return func() { _ = s.push(addrs...) } }
		fail := func() { s.conn().ReportError(errPlanned) }
		step("an error first", fail, errPlanned)
		step("the first set", push("10.0.0.1:1"), nil, "10.0.0.1:1")
		step("another set", push("10.0.0.1:1", "10.0.0.2:1"), nil, "10.0.0.1:1", "10.0.0.2:1")
		step("another order", push("10.0.0.2:1", "10.0.0.1:1"), nil, "10.0.0.2:1", "10.0.0.1:1")
		step("an error", fail, errPlanned, "10.0.0.2:1", "10.0.0.1:1")
		step("the same set without it", push("10.0.0.2:1", "10.0.0.1:1"), nil, "10.0.0.2:1", "10.0.0.1:1")
		step("an empty set", push(), discover.ErrNoRecords, "10.0.0.2:1", "10.0.0.1:1")
		step("a set again", push("10.0.0.2:1"), nil, "10.0.0.2:1")
		for range 3 { // nothing new
			_ = s.push("10.0.0.2:1")
		}
		fail()
		synctest.Wait()
		fail()
		synctest.Wait()
		if len(changes) != 1 {
			t.Errorf("after the same set and twice the same error: got %d changes, want the error once", len(changes))
		}
		cancel()
		for _, result := range []<-chan error{ended, othersEnded} {
			if err := <-result; !errors.Is(err, context.Canceled) {
				t.Errorf("Watch: got %v, want context.Canceled", err)
			}
		}
		if got := s.seen(); got != [3]int{1, 0, 0} {
			t.Errorf("got builds, hints, closes %v; want one build: a Watch neither hints nor closes", got)
		}
		closeSource(t, source)
	})
}

func TestWatchTellsOfAPartialSet(t *testing.T) {
	t.Parallel()
	s := new(script)
	s.build = func(int) error { return s.push("10.0.0.1:1", "x") }
	source := fromGRPC(t, s, "x", discover.GRPCConfig{})
	defer closeSource(t, source)
	ctx, cancel := context.WithCancel(lateContext(t))
	_ = source.Watch(ctx, func(endpoints []discover.Endpoint, err error) {
		wantHosts(t, endpoints, "10.0.0.1:1")
		if partial, ok := errors.AsType[*discover.PartialError](err); !ok || partial.Dropped != 1 {
			t.Errorf("got %v, want a *PartialError of one", err)
		}
		cancel()
	})
}

// A slow callee is told the latest, not all that it missed.
func TestWatchAddsUpWhatASlowCalleeMisses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(script)
		s.build = func(int) error { return s.push("10.0.0.1:1") }
		source := fromGRPC(t, s, "x", discover.GRPCConfig{})
		defer closeSource(t, source)
		ctx, cancel := context.WithCancel(t.Context())
		var calls [][]discover.Endpoint
		_ = source.Watch(ctx, func(endpoints []discover.Endpoint, _ error) {
			calls = append(calls, endpoints)
			if len(calls) == 2 {
				cancel()
				return
			}
			for _, addr := range []string{"10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1"} {
				_ = s.push(addr)
				time.Sleep(time.Second)
			}
		})
		if len(calls) != 2 {
			t.Fatalf("told %d times, want twice", len(calls))
		}
		wantHosts(t, calls[1], "10.0.0.4:1")
	})
}

func TestSourceErrorTexts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  *discover.SourceError
		want string
	}{
		{&discover.SourceError{Source: "etcd:///c", Kind: discover.ErrServerFailed, Err: errPlanned}, "resolve etcd:///c: planned"},
		{&discover.SourceError{Source: "etcd:///c", Kind: discover.ErrNoRecords, Err: errPlanned}, "resolve etcd:///c: no endpoints: planned"},
		{&discover.SourceError{Source: "etcd:///c", Kind: discover.ErrTimeout}, "resolve etcd:///c: no answer in time"},
		{&discover.SourceError{Source: "etcd:///c", Err: context.Canceled}, "resolve etcd:///c: context canceled"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// The options that a builder gets are those that grpc-go would give it, without a service config.
func TestFromGRPCBuildOptions(t *testing.T) {
	t.Parallel()
	s := new(script)
	s.build = func(int) error {
		s.options.MetricsRecorder.RecordInt64Count(nil, 1) // resolvers take it that there is one
		return s.push("10.0.0.1:1")
	}
	tests := []struct {
		name, target, given, want string
		builder                   resolver.Builder
	}{
		{"from the target", "script:///node:35000", "", "node:35000", s},
		{"port alone", "script:///:35000", "", "localhost:35000", s},
		{"escaped", "script:///service/a b", "", "service%2Fa%20b", s},
		{"IPv6", "script:///[::1]:35000", "", "[::1]:35000", s},
		{"given", "script:///node", "other", "other", s},
		{"of the builder", "script:///node", "", "overridden:script:///node", overrider{s}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source := fromGRPC(t, tt.builder, tt.target, discover.GRPCConfig{Options: resolver.BuildOptions{Authority: tt.given}})
			defer closeSource(t, source)
			if _, err := source.Resolve(lateContext(t)); err != nil {
				t.Fatal(err)
			}
			if got := s.options.Authority; got != tt.want || !s.options.DisableServiceConfig {
				t.Errorf("got authority %q and DisableServiceConfig %v, want %q and true", got, s.options.DisableServiceConfig, tt.want)
			}
			if result := s.conn().ParseServiceConfig("{}"); result.Err == nil || result.Config != nil {
				t.Errorf("ParseServiceConfig: got %+v, want an error", result)
			}
		})
	}
}

// overrider is a builder with an opinion on the authority.
type overrider struct{ *script }

func (overrider) OverrideAuthority(target resolver.Target) string {
	return "overridden:" + target.String()
}

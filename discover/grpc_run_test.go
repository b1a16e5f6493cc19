// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/discover"
)

func TestFromGRPCBuildsAgain(t *testing.T) {
	t.Parallel()
	failures := map[string]func() error{
		"the builder fails":  func() error { return errPlanned },
		"the builder panics": func() error { panic(errPlanned) },
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := new(script)
				began := time.Now()
				var at []time.Duration
				s.build = func(n int) error {
					at = append(at, time.Since(began))
					if n < 9 {
						return failure()
					}
					return s.push("10.0.0.1:1")
				}
				source := fromGRPC(t, s, "x", discover.GRPCConfig{})
				_, err := source.Resolve(t.Context())
				wantSourceError(t, err, discover.ErrServerFailed)
				if !strings.Contains(err.Error(), errPlanned.Error()) {
					t.Errorf("got %v, want the cause", err)
				}
				time.Sleep(3 * time.Minute)
				endpoints, err := source.Resolve(t.Context())
				if err != nil {
					t.Errorf("in the end: got %v", err)
				}
				wantHosts(t, endpoints, "10.0.0.1:1")
				closeSource(t, source)
				want := []time.Duration{0, 1, 3, 7, 15, 31, 61, 91, 121}
				if len(at) != len(want) {
					t.Fatalf("built at %v, want at %v s", at, want)
				}
				for i := range want {
					if at[i] != want[i]*time.Second {
						t.Errorf("build %d at %v, want %v s", i+1, at[i], want[i])
					}
				}
			})
		})
	}
}

func TestFromGRPCBuildsAgainAtAHint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(script)
		s.build = func(n int) error {
			if n == 1 {
				return errPlanned
			}
			time.AfterFunc(300*time.Millisecond, func() { _ = s.push("10.0.0.1:1") })
			return nil
		}
		source := fromGRPC(t, s, "x", discover.GRPCConfig{})
		defer closeSource(t, source)
		if _, err := source.Resolve(t.Context()); !errors.Is(err, errPlanned) {
			t.Fatalf("got %v, want the error of the builder", err)
		}
		began := time.Now()
		endpoints, err := source.Resolve(t.Context())
		if err != nil || time.Since(began) != 300*time.Millisecond {
			t.Errorf("got %v after %v, want the set that the second build led to after 300 ms", err, time.Since(began))
		}
		wantHosts(t, endpoints, "10.0.0.1:1")
	})
}

// nilBuilder returns no resolver and no error.
type nilBuilder struct{}

func (nilBuilder) Scheme() string { return "nil" }

func (nilBuilder) Build(resolver.Target, resolver.ClientConn, resolver.BuildOptions) (resolver.Resolver, error) {
	return nil, nil //nolint:nilnil // this is the mistake
}

func TestFromGRPCWithoutAResolver(t *testing.T) {
	t.Parallel()
	source := fromGRPC(t, nilBuilder{}, "x", discover.GRPCConfig{})
	defer closeSource(t, source)
	_, err := source.Resolve(lateContext(t))
	wantSourceError(t, err, discover.ErrServerFailed)
}

func TestFromGRPCSurvivesAPanicOfResolveNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(script)
		s.build = func(int) error { return s.push("10.0.0.1:1") }
		s.resolveNow = func() { panic(errPlanned) }
		source := fromGRPC(t, s, "x", discover.GRPCConfig{})
		defer closeSource(t, source)
		if _, err := source.Resolve(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			endpoints, err := source.Resolve(t.Context())
			wantHosts(t, endpoints, "10.0.0.1:1")
			if _, ok := errors.AsType[*discover.StaleError](err); !ok || !strings.Contains(err.Error(), "panic in the resolver's ResolveNow: planned") {
				t.Errorf("got %v, want a *StaleError that tells of the panic", err)
			}
		}
	})
}

func TestFromGRPCCloseTellsOfAPanic(t *testing.T) {
	t.Parallel()
	s := new(script)
	s.build = func(int) error { return s.push("10.0.0.1:1") }
	s.close = func() { panic(errPlanned) }
	source := fromGRPC(t, s, "x", discover.GRPCConfig{})
	if _, err := source.Resolve(lateContext(t)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := source.Close(); err == nil || !strings.Contains(err.Error(), "panic in the resolver's Close: planned") {
			t.Errorf("got %v, want the panic", err)
		}
	}
}

// A resolver that blocks in one of its methods holds nobody up for ever, and is stopped when it comes back.
func TestFromGRPCWithAResolverThatBlocks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		block    func(s *script, block func())
		resolves bool
	}{
		{"in Build", func(s *script, block func()) {
			s.build = func(int) error { block(); return nil }
		}, false},
		{"in ResolveNow", func(s *script, block func()) {
			s.build = func(int) error { return s.push("10.0.0.1:1") }
			s.resolveNow = block
		}, true},
		{"in Close", func(s *script, block func()) {
			s.build = func(int) error { return s.push("10.0.0.1:1") }
			s.close = block
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, release := new(script), make(chan struct{})
				tt.block(s, func() { <-release })
				source := fromGRPC(t, s, "x", discover.GRPCConfig{})
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					if endpoints, err := source.Resolve(ctx); (err == nil && len(endpoints) == 1) != tt.resolves {
						t.Errorf("got %v, %v; want endpoints: %v", endpoints, err, tt.resolves)
					}
					cancel()
				}
				began := time.Now()
				if err := source.Close(); err == nil || time.Since(began) != 6*time.Second {
					t.Errorf("Close: got %v after %v, want an error after 6 s", err, time.Since(began))
				}
				close(release)
				if err := source.Close(); err != nil {
					t.Errorf("Close after the resolver came back: %v", err)
				}
				if got := s.seen(); got[0] != 1 || got[2] != 1 {
					t.Errorf("got builds, hints, closes %v; want one build and one close", got)
				}
			})
		})
	}
}

// Hints that come while the resolver is busy are one.
func TestFromGRPCHintsAddUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, release := new(script), make(chan struct{})
		s.build = func(int) error { return s.push("10.0.0.1:1") }
		s.resolveNow = func() { <-release }
		source := fromGRPC(t, s, "x", discover.GRPCConfig{})
		defer closeSource(t, source)
		source.ResolveNow() // nothing runs: it is remembered at most
		if _, err := source.Resolve(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			source.ResolveNow()
			synctest.Wait()
		}
		close(release)
		synctest.Wait()
		if got := s.seen(); got[1] != 2 {
			t.Errorf("got %d hints, want the one under way and one for the nine after it", got[1])
		}
	})
}

func TestFromGRPCAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(script)
		source := fromGRPC(t, s, "x", discover.GRPCConfig{})
		waiting := make(chan error, 1)
		go func() {
			_, err := source.Resolve(t.Context())
			waiting <- err
		}()
		_, watching := watch(t.Context(), source)
		synctest.Wait()
		began := time.Now()
		closeSource(t, source)
		if err := <-waiting; !errors.Is(err, discover.ErrClosed) {
			t.Errorf("Resolve under way: got %v, want ErrClosed", err)
		}
		if err := <-watching; !errors.Is(err, discover.ErrClosed) {
			t.Errorf("Watch under way: got %v, want ErrClosed", err)
		}
		if err := s.push("10.0.0.1:1"); err != nil {
			t.Errorf("UpdateState: got %v, want it ignored", err)
		}
		s.conn().ReportError(errPlanned)
		source.ResolveNow()
		if endpoints, err := source.Resolve(t.Context()); !errors.Is(err, discover.ErrClosed) || len(endpoints) > 0 {
			t.Errorf("Resolve: got %v, %v; want ErrClosed", endpoints, err)
		}
		if err := source.Watch(t.Context(), func([]discover.Endpoint, error) { t.Error("Watch told something") }); !errors.Is(err, discover.ErrClosed) {
			t.Errorf("Watch: got %v, want ErrClosed", err)
		}
		closeSource(t, source)
		if got := s.seen(); got != [3]int{1, 0, 1} || time.Since(began) > 0 {
			t.Errorf("got builds, hints, closes %v after %v; want one build and one close, at once", got, time.Since(began))
		}
	})
}

func TestFromGRPCClosedBeforeItStarted(t *testing.T) {
	t.Parallel()
	s := new(script)
	source := fromGRPC(t, s, "x", discover.GRPCConfig{})
	closeSource(t, source)
	if _, err := source.Resolve(t.Context()); !errors.Is(err, discover.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if got := s.seen(); got != [3]int{} {
		t.Errorf("got builds, hints, closes %v; want none", got)
	}
}

func TestFromGRPCClosedBetweenBuilds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{build: func(int) error { return errPlanned }}
		source := fromGRPC(t, s, "x", discover.GRPCConfig{})
		_, _ = source.Resolve(t.Context())
		began := time.Now()
		closeSource(t, source)
		if got := s.seen(); got != [3]int{1, 0, 0} || time.Since(began) > 0 {
			t.Errorf("got builds, hints, closes %v after %v; want one build, at once", got, time.Since(began))
		}
	})
}

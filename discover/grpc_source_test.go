// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/discover"
)

// askedAndHinted is a source that takes hints and is asked, not watched.
type askedAndHinted struct {
	asked
	hints int
}

func (h *askedAndHinted) ResolveNow() { h.hints++ }

func TestBuilderLooksUpAtAHintThatTheSourceTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &askedAndHinted{asked: asked{began: time.Now(), answer: func(context.Context, int) ([]discover.Endpoint, error) { return node("a"), nil }}}
		built := build(t, source, new(channelLog))
		for range 2 {
			time.Sleep(time.Minute)
			built.ResolveNow(resolver.ResolveNowOptions{})
		}
		synctest.Wait()
		built.Close()
		source.wantAt(t, 0, time.Minute, 2*time.Minute)
		if source.hints != 2 {
			t.Errorf("the source got %d hints, want both", source.hints)
		}
	})
}

// broken is a source that panics wherever it is told to, until it is mended.
type broken struct {
	in     string // the method
	mended bool
}

func (b *broken) panicIn(method string) {
	if b.in == method && !b.mended {
		panic("planned")
	}
}

func (b *broken) Resolve(context.Context) ([]discover.Endpoint, error) {
	b.panicIn("Resolve")
	return node("a"), nil
}

func (b *broken) ResolveNow() { b.panicIn("ResolveNow") }

func (b *broken) Close() error {
	b.panicIn("Close")
	return nil
}

// brokenWatcher is the same as a Watcher.
type brokenWatcher struct{ broken }

func (b *brokenWatcher) Watch(ctx context.Context, changed func([]discover.Endpoint, error)) error {
	b.panicIn("Watch")
	changed(node("a"), nil)
	<-ctx.Done()
	return ctx.Err()
}

func TestBuilderOverASourceThatPanics(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		in         string
		watched    bool
		wantErrors int // before the source is mended
	}{
		{"when it is asked", "Resolve", false, 3},
		{"when it is watched", "Watch", true, 3},
		{"at a hint", "ResolveNow", false, 0},
		{"when it is closed", "Close", true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				watcher := &brokenWatcher{broken{in: tt.in}}
				channel := new(channelLog)
				var source discover.Resolver = &watcher.broken
				if tt.watched {
					source = watcher
				}
				built := build(t, source, channel)
				time.Sleep(4 * time.Second) // it is tried at 0, 1 and 3 s
				_, errs := channel.told()
				if len(errs) != tt.wantErrors {
					t.Errorf("got errors %v, want %d", errs, tt.wantErrors)
				}
				for _, err := range errs {
					if want := "panic in the source's " + tt.in + ": planned"; err.Error() != want {
						t.Errorf("got error %q, want %q", err, want)
					}
				}
				if tt.wantErrors > 0 {
					watcher.mended = true
				}
				built.ResolveNow(resolver.ResolveNowOptions{})
				time.Sleep(time.Second)
				if sets, _ := channel.told(); len(sets) == 0 {
					t.Error("got no set after the hint")
				}
				built.Close()
			})
		})
	}
}

func TestBuilderReportsAPanicOfOpen(t *testing.T) {
	t.Parallel()
	builder := discover.NewBuilder("ours", func(resolver.Target) (discover.Resolver, error) { panic("planned") })
	_, err := builder.Build(resolver.Target{}, new(channelLog), resolver.BuildOptions{})
	if err == nil || !strings.Contains(err.Error(), "planned") {
		t.Errorf("got %v, want the panic as an error", err)
	}
}

// A panic of grpc-go's, or of a policy under it, is not the source's fault and is not hidden.
func TestWatchLeavesPanicsOfTheChannelAlone(t *testing.T) {
	t.Parallel()
	defer func() {
		if got := recover(); got != "the channel's" {
			t.Errorf("got panic %v, want that of the channel", got)
		}
	}()
	err := discover.WatchForTest(t.Context(), new(brokenWatcher), panickingChannel{})
	t.Errorf("got %v, want a panic", err)
}

// panickingChannel panics when it is told something.
type panickingChannel struct{ resolver.ClientConn }

func (panickingChannel) UpdateState(resolver.State) error { panic("the channel's") }

func TestFromGRPCHearsNoResolverWhoseBuildFailed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		fail func() error
	}{
		{"with an error", func() error { return errPlanned }},
		{"with a panic", func() error { panic("planned") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := new(script)
				var former resolver.ClientConn
				s.build = func(n int) error {
					if n == 1 {
						former = s.conn()
						return tt.fail()
					}
					return s.push("10.0.0.2:1")
				}
				source := fromGRPC(t, s, "x", discover.GRPCConfig{FreshWait: -1})
				defer closeSource(t, source)
				if _, err := source.Resolve(t.Context()); err == nil {
					t.Fatal("got no error of the first build")
				}
				time.Sleep(5 * time.Second) // built again after 1 s
				_ = former.UpdateState(stateOf("10.0.0.66:1"))
				former.ReportError(errPlanned)
				got, err := source.Resolve(t.Context())
				if err != nil {
					t.Errorf("got %v, want none: the former resolver is not heard", err)
				}
				wantHosts(t, got, "10.0.0.2:1")
			})
		})
	}
}

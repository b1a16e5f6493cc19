// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/discover"
)

// channelLog is the ClientConn of a channel that notes what it is told.
type channelLog struct {
	resolver.ClientConn

	mu     sync.Mutex
	refuse error
	sets   []string // the addresses of each set
	errs   []error
}

func (c *channelLog) UpdateState(state resolver.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var addrs string
	for _, e := range state.Endpoints {
		for _, a := range e.Addresses {
			addrs += a.Addr + " "
		}
	}
	c.sets = append(c.sets, addrs)
	return c.refuse
}

func (c *channelLog) ReportError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

func (c *channelLog) told() (sets []string, errs []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sets), slices.Clone(c.errs)
}

// build builds the source as a resolver of a channel.
func build(t *testing.T, source discover.Resolver, cc resolver.ClientConn) resolver.Resolver {
	t.Helper()
	builder := discover.NewBuilder("Ours", func(resolver.Target) (discover.Resolver, error) { return source, nil })
	if got := builder.Scheme(); got != "ours" {
		t.Errorf("got scheme %q, want it in lower case", got)
	}
	built, err := builder.Build(resolver.Target{}, cc, resolver.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// asked is a source that notes when it was asked and answers as a test says.
type asked struct {
	answer func(ctx context.Context, n int) ([]discover.Endpoint, error) // n counts from 1

	began time.Time
	mu    sync.Mutex
	at    []time.Duration
	open  int
}

func (l *asked) Resolve(ctx context.Context) ([]discover.Endpoint, error) {
	l.mu.Lock()
	l.at = append(l.at, time.Since(l.began))
	n := len(l.at)
	l.open++
	if l.open > 1 {
		l.at = append(l.at, -1)
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
	}()
	return l.answer(ctx, n)
}

func (l *asked) wantAt(t *testing.T, want ...time.Duration) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if diff := cmp.Diff(want, l.at); diff != "" {
		t.Errorf("looked up at (-want +got; -1 is a second one at once):\n%s", diff)
	}
}

func TestBuilderLooksUpAtHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const took = 300 * time.Millisecond
		source := &asked{began: time.Now(), answer: func(context.Context, int) ([]discover.Endpoint, error) {
			time.Sleep(took)
			return node("a"), nil
		}}
		built := build(t, source, new(channelLog))
		hint := func() { built.ResolveNow(resolver.ResolveNowOptions{}) }
		time.Sleep(took / 2)
		for range 5 { // during the first lookup: one more, behind the floor
			hint()
		}
		time.Sleep(time.Minute)
		hint() // long after: at once
		time.Sleep(took + took/3)
		hint() // inside the floor: kept until its end
		hint()
		time.Sleep(time.Hour)
		built.Close()
		second := took/2 + time.Minute
		source.wantAt(t, 0, time.Second, second, second+time.Second)
	})
}

func TestBuilderRepeatsFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{began: time.Now(), answer: func(_ context.Context, n int) ([]discover.Endpoint, error) {
			switch n {
			case 9, 12:
				return node("a"), &discover.StaleError{Cause: errPlanned} // it may be used
			case 2:
				return nil, nil // the mistake of a source
			default:
				return nil, errPlanned
			}
		}}
		channel := new(channelLog)
		built := build(t, source, channel)
		time.Sleep(10 * time.Minute)
		s := time.Second
		source.wantAt(t, 0, s, 3*s, 7*s, 15*s, 31*s, 61*s, 91*s, 121*s)
		sets, errs := channel.told()
		if len(sets) != 1 || len(errs) != 8 || !errors.Is(errs[0], errPlanned) || errors.Is(errs[1], errPlanned) {
			t.Errorf("got sets %v and errors %v, want one set and the eight failures before it", sets, errs)
		}
		built.ResolveNow(resolver.ResolveNowOptions{})
		time.Sleep(10 * time.Minute)
		source.wantAt(t, 0, s, 3*s, 7*s, 15*s, 31*s, 61*s, 91*s, 121*s, 600*s, 601*s, 603*s)
		if sets, errs := channel.told(); len(sets) != 2 || len(errs) != 8 {
			t.Errorf("got sets %v and errors %v, want no error after the first set", sets, errs)
		}
		built.Close()
	})
}

func TestBuilderAsksASourceAgainThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{began: time.Now(), answer: func(_ context.Context, n int) ([]discover.Endpoint, error) {
			if n < 3 {
				runtime.Goexit()
			}
			return node("a"), nil
		}}
		channel := new(channelLog)
		built := build(t, source, channel)
		time.Sleep(time.Minute)
		source.wantAt(t, 0, time.Second, 3*time.Second)
		if sets, errs := channel.told(); len(sets) != 1 || len(errs) != 2 {
			t.Errorf("got sets %v and errors %v, want one set and two errors before it", sets, errs)
		}
		built.Close()
	})
}

func TestBuilderHintEndsTheWaitAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{began: time.Now(), answer: func(context.Context, int) ([]discover.Endpoint, error) { return nil, errPlanned }}
		built := build(t, source, new(channelLog))
		time.Sleep(8 * time.Second) // failures at 0, 1, 3 and 7 s; the next would be at 15 s
		built.ResolveNow(resolver.ResolveNowOptions{})
		time.Sleep(time.Second)
		built.Close()
		s := time.Second
		source.wantAt(t, 0, s, 3*s, 7*s, 8*s)
	})
}

func TestBuilderRepeatsWhatThePolicyRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{began: time.Now(), answer: func(context.Context, int) ([]discover.Endpoint, error) { return node("a"), nil }}
		channel := &channelLog{refuse: errPlanned}
		built := build(t, source, channel)
		time.Sleep(4 * time.Second)
		built.Close()
		s := time.Second
		source.wantAt(t, 0, s, 3*s)
		if sets, errs := channel.told(); len(sets) != 3 || len(errs) != 0 {
			t.Errorf("got sets %v and errors %v, want three sets", sets, errs)
		}
	})
}

func TestBuilderLimitsALookup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{began: time.Now(), answer: func(ctx context.Context, _ int) ([]discover.Endpoint, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		channel := new(channelLog)
		built := build(t, source, channel)
		time.Sleep(5*time.Second + time.Millisecond)
		if _, errs := channel.told(); len(errs) != 1 || !errors.Is(errs[0], context.DeadlineExceeded) {
			t.Errorf("got errors %v, want that of the limit", errs)
		}
		time.Sleep(2 * time.Second) // the next lookup hangs
		began := time.Now()
		built.Close()
		if time.Since(began) > 0 {
			t.Errorf("Close took %v beside a lookup that heeds its context", time.Since(began))
		}
		if _, errs := channel.told(); len(errs) != 1 {
			t.Errorf("got errors %v, want none of the cancelled lookup", errs)
		}
	})
}

func TestBuilderCloseLeavesBehindWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		source := &asked{began: time.Now(), answer: func(context.Context, int) ([]discover.Endpoint, error) {
			<-release
			return node("a"), nil
		}}
		channel := new(channelLog)
		built := build(t, source, channel)
		synctest.Wait()
		began := time.Now()
		built.Close()
		if got := time.Since(began); got != 100*time.Millisecond {
			t.Errorf("Close took %v, want 100 ms", got)
		}
		close(release)
		synctest.Wait()
		if sets, errs := channel.told(); len(sets)+len(errs) > 0 {
			t.Errorf("got sets %v and errors %v after Close, want none", sets, errs)
		}
	})
}

func TestBuilderOpens(t *testing.T) {
	t.Parallel()
	var target resolver.Target
	target.URL.Path = "/x"
	failing := discover.NewBuilder("ours", func(got resolver.Target) (discover.Resolver, error) {
		if got.Endpoint() != "x" {
			t.Errorf("opened for %q, want x", got.Endpoint())
		}
		return nil, errPlanned
	})
	if _, err := failing.Build(target, new(channelLog), resolver.BuildOptions{}); !errors.Is(err, errPlanned) {
		t.Errorf("got %v, want the error of the source", err)
	}
	empty := discover.NewBuilder("ours", func(resolver.Target) (discover.Resolver, error) { return nil, nil }) //nolint:nilnil // the mistake
	if _, err := empty.Build(target, new(channelLog), resolver.BuildOptions{}); err == nil {
		t.Error("without a source: got no error")
	}
}

// pusher is a source of a user's own that pushes, takes hints and is closed.
type pusher struct {
	sets   chan []discover.Endpoint
	hints  chan struct{}
	closed chan struct{}
}

func (*pusher) Resolve(context.Context) ([]discover.Endpoint, error) {
	return nil, errors.New("not watched")
}

func (p *pusher) Watch(ctx context.Context, changed func([]discover.Endpoint, error)) error {
	for {
		select {
		case set := <-p.sets:
			if set == nil {
				return errPlanned
			}
			changed(set, nil)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *pusher) ResolveNow() { p.hints <- struct{}{} }

func (p *pusher) Close() error { close(p.closed); return errPlanned }

func TestBuilderWatchesASourceThatPushes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &pusher{sets: make(chan []discover.Endpoint), hints: make(chan struct{}, 9), closed: make(chan struct{})}
		channel := new(channelLog)
		built := build(t, source, channel)
		source.sets <- nil // ends the Watch before there was a set
		began := time.Now()
		source.sets <- node("a")
		if got := time.Since(began); got != time.Second {
			t.Errorf("watched again after %v, want 1 s", got)
		}
		source.sets <- nil
		source.sets <- nil // watched again: the failure is not reported any more
		source.sets <- node("b")
		built.ResolveNow(resolver.ResolveNowOptions{})
		synctest.Wait()
		sets, errs := channel.told()
		if len(sets) != 2 || len(errs) != 1 || !errors.Is(errs[0], errPlanned) || len(source.hints) != 1 {
			t.Errorf("got sets %v, errors %v, %d hints; want two sets, the error before the first, and the hint", sets, errs, len(source.hints))
		}
		built.Close()
		select {
		case <-source.closed:
		default:
			t.Error("the source was not closed")
		}
	})
}

// A grpc-go resolver on both sides: what goes in comes out.
func TestBuilderOverFromGRPC(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, channel := new(script), new(channelLog)
		built := build(t, fromGRPC(t, s, "x", discover.GRPCConfig{}), channel)
		synctest.Wait()
		s.conn().ReportError(errPlanned)
		synctest.Wait()
		_ = s.push("10.0.0.1:1")
		synctest.Wait()
		_ = s.push("10.0.0.1:1", "10.0.0.2:1")
		synctest.Wait()
		s.conn().ReportError(errPlanned)
		built.ResolveNow(resolver.ResolveNowOptions{})
		synctest.Wait()
		built.Close()
		sets, errs := channel.told()
		want := []string{"10.0.0.1:1 ", "10.0.0.1:1 10.0.0.2:1 ", "10.0.0.1:1 10.0.0.2:1 "} // the last one stale
		if diff := cmp.Diff(want, sets); diff != "" || len(errs) != 1 || !errors.Is(errs[0], errPlanned) {
			t.Errorf("errors %v, want the first; sets (-want +got):\n%s", errs, diff)
		}
		if got := s.seen(); got != [3]int{1, 1, 1} {
			t.Errorf("got builds, hints, closes %v; want one of each", got)
		}
	})
}

func TestStateOfEndpoints(t *testing.T) {
	t.Parallel()
	addrs := func(all ...string) []netip.AddrPort {
		var parsed []netip.AddrPort
		for _, a := range all {
			parsed = append(parsed, netip.MustParseAddrPort(a))
		}
		return parsed
	}
	address := func(addr, name string) resolver.Address { return resolver.Address{Addr: addr, ServerName: name} }
	tests := []struct {
		name  string
		given []discover.Endpoint
		want  [][]resolver.Address
	}{
		{
			"addresses of one server",
			[]discover.Endpoint{{Host: "a.test", Port: 1, Addrs: addrs("[2001:db8::1]:1", "10.0.0.1:2")}},
			[][]resolver.Address{{address("[2001:db8::1]:1", "a.test"), address("10.0.0.1:2", "a.test")}},
		},
		{"a name", []discover.Endpoint{{Host: "a.test", Port: 1}}, [][]resolver.Address{{address("a.test:1", "a.test")}}},
		{"an absolute name", []discover.Endpoint{{Host: "a.test", Port: 1, Absolute: true}}, [][]resolver.Address{{address("a.test.:1", "a.test")}}},
		{"IPv4", []discover.Endpoint{{Host: "10.0.0.1", Port: 1}}, [][]resolver.Address{{address("10.0.0.1:1", "10.0.0.1")}}},
		{"IPv6", []discover.Endpoint{{Host: "::1", Port: 1}}, [][]resolver.Address{{address("[::1]:1", "[::1]")}}},
		{"IPv6 with a zone", []discover.Endpoint{{Host: "fe80::1%eth0", Port: 1}}, [][]resolver.Address{{address("[fe80::1%eth0]:1", "[fe80::1]")}}},
		{"the lowest priority number alone, in its order", []discover.Endpoint{
			{Host: "backup", Port: 1, Priority: 7}, {Host: "b", Port: 1, Priority: 3}, {Host: "last", Port: 1, Priority: 9}, {Host: "a", Port: 1, Priority: 3},
		}, [][]resolver.Address{{address("b:1", "b")}, {address("a:1", "a")}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			state := discover.ToStateForTest(tt.given)
			var got [][]resolver.Address
			for _, e := range state.Endpoints {
				got = append(got, e.Addresses)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(slices.Concat(tt.want...), state.Addresses); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
	state := discover.ToStateForTest([]discover.Endpoint{{Host: "a", Port: 1, Weight: 7}, {Host: "b", Port: 1}})
	if a, b := weight.FromEndpoint(state.Endpoints[0]).Weight, weight.FromEndpoint(state.Endpoints[1]).Weight; a != 7 || b != 0 {
		t.Errorf("got weights %d and %d, want 7 and none", a, b)
	}
}

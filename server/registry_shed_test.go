// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/server"
)

const shedText = "connection shed: move to another server"

// crowd connects n clients, a second apart, that stay without answering.
func crowd(t *testing.T, f *fixture, n int) []*session {
	t.Helper()
	sessions := make([]*session, n)
	for i := range sessions {
		request := named(strconv.Itoa(i))
		request.IsRunningWithDebugger = true // nobody answers here
		sessions[i] = connect(t, f.grpcConn(t), request)
		time.Sleep(time.Second)
	}
	return sessions
}

func TestShedEndsTheOldestStreamsEvenly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		n    int
		over time.Duration
		want []time.Duration // when the streams end, in the order in which they began
	}{
		"some, over a time":           {3, 6 * time.Second, []time.Duration{0, 2 * time.Second, 4 * time.Second}},
		"one":                         {1, time.Hour, []time.Duration{0}},
		"at once":                     {2, 0, []time.Duration{0, 0}},
		"at once, by a negative time": {2, -time.Second, []time.Duration{0, 0}},
		"more than there are":         {9, 5 * time.Second, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}},
		"none":                        {0, time.Second, nil},
		"less than none":              {-1, time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onFakeClock(t, func(t *testing.T, config server.Config) {
				const clients = 5
				f := serveMemory(t, config)
				sessions := crowd(t, f, clients)
				ends := make([]chan time.Duration, clients)
				begin := time.Now()
				for i, s := range sessions {
					ends[i] = make(chan time.Duration, 1)
					go func() {
						_ = s.wait() // looked at below
						ends[i] <- time.Since(begin)
					}()
				}
				told, err := f.Registry().Shed(tt.n, tt.over)
				if err != nil || told != len(tt.want) {
					t.Errorf("got %d, %v, want %d", told, err, len(tt.want))
				}
				synctest.Wait()
				for i, want := range tt.want {
					if got := <-ends[i]; got != want {
						t.Errorf("stream %d ended after: got %v, want %v", i, got, want)
					}
					checkEnd(t, sessions[i], contract.ReasonShed, shedText)
				}
				if got, want := f.Registry().Count(), clients-len(tt.want); got != want {
					t.Errorf("count: got %d, want %d", got, want)
				}
				if got := f.Registry().Stats().ShedClients; got != uint64(len(tt.want)) {
					t.Errorf("stats: got %d, want %d", got, len(tt.want))
				}
				connect(t, f.grpcConn(t), named("again")) // it takes clients as before
			})
		})
	}
}

// Those who leave by themselves meanwhile do not count, as long as others are there.
func TestShedPassesOverWhoHasLeft(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		sessions := crowd(t, f, 4)
		leave := time.AfterFunc(time.Second, sessions[1].cancel)
		defer leave.Stop()
		if told, err := f.Registry().Shed(2, 4*time.Second); told != 2 || err != nil {
			t.Errorf("got %d, %v, want 2", told, err)
		}
		checkEnd(t, sessions[2], contract.ReasonShed, shedText)
		synctest.Wait()
		if got := f.Registry().Count(); got != 1 {
			t.Errorf("count: got %d, want 1", got)
		}
	})
}

func TestShedGivesUp(t *testing.T) {
	t.Parallel()
	errEnough := errors.New("enough")
	for name, tt := range map[string]struct {
		stop func(*fixture, context.CancelCauseFunc)
		want error
	}{
		"when the server drains": {
			func(f *fixture, _ context.CancelCauseFunc) { _ = f.Registry().Drain(ended()) }, // the clients stay
			server.ErrDraining,
		},
		"when the registry is closed": {
			func(f *fixture, _ context.CancelCauseFunc) { f.Registry().Close() }, server.ErrDraining,
		},
		"with its context": {
			func(_ *fixture, cancel context.CancelCauseFunc) { cancel(errEnough) }, errEnough,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onFakeClock(t, func(t *testing.T, config server.Config) {
				f := serveMemory(t, config)
				crowd(t, f, 4)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				stop := time.AfterFunc(1500*time.Millisecond, func() { tt.stop(f, cancel) })
				defer stop.Stop()
				if told, err := f.Registry().ShedContext(ctx, 4, 4*time.Second); told != 2 || !errors.Is(err, tt.want) {
					t.Errorf("got %d, %v, want 2 and %v", told, err, tt.want)
				}
			})
		})
	}
}

// ended is a context that is done.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestShedIsRefused(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		crowd(t, f, 2)
		first := make(chan error, 1)
		go func() {
			_, err := f.Registry().Shed(2, time.Minute)
			first <- err
		}()
		synctest.Wait()
		if told, err := f.Registry().Shed(1, 0); told != 0 || !errors.Is(err, server.ErrShedding) {
			t.Errorf("a second one: got %d, %v, want %v", told, err, server.ErrShedding)
		}
		if err := <-first; err != nil {
			t.Errorf("the first one: %v", err)
		}
		if _, err := f.Registry().Shed(1, 0); err != nil {
			t.Errorf("after it: %v", err)
		}
		f.Registry().Close()
		if told, err := f.Registry().Shed(1, 0); told != 0 || !errors.Is(err, server.ErrDraining) {
			t.Errorf("when closed: got %d, %v, want %v", told, err, server.ErrDraining)
		}
	})
}

// Clients that come and go and are shed, all at once: the count comes out right.
func TestShedWhileClientsComeAndGo(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{})
	conn := f.grpcConn(t)
	var sessions []*session
	for i := range 40 {
		sessions = append(sessions, connect(t, conn, named(strconv.Itoa(i))))
	}
	done := make(chan int, 1)
	go func() {
		told, err := f.Registry().Shed(20, 50*time.Millisecond)
		if err != nil {
			t.Errorf("shed: %v", err)
		}
		done <- told
	}()
	for i, s := range slices.Backward(sessions) {
		if i >= 30 {
			s.cancel()
			connect(t, conn, named("new"+strconv.Itoa(i)))
		}
	}
	told := <-done
	want := 40 - told
	eventually(t, "the count", func() bool { return f.Registry().Count() == want })
	if told != 20 {
		t.Errorf("got %d, want 20", told)
	}
}

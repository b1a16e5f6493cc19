// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// outcome is how a call ended and when.
type outcome struct {
	count balance.Count
	err   error
	after time.Duration
}

// countLater counts on a goroutine of its own.
func countLater(ctx context.Context, prober balance.Prober, endpoint discover.Endpoint) <-chan outcome {
	began, done := time.Now(), make(chan outcome, 1)
	go func() {
		count, err := prober.Count(ctx, endpoint)
		done <- outcome{count, err, time.Since(began)}
	}()
	return done
}

func TestWaitersKeepTheConnectionThatOneOfThemStarted(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			m := meet(t, p, answering("7"))
			m.gate = make(chan struct{})
			impatient, leave := context.WithCancel(t.Context())
			first := countLater(impatient, m.prober, somewhere)
			synctest.Wait()
			second := countLater(t.Context(), m.prober, somewhere)
			synctest.Wait()
			leave()
			if got := <-first; !errors.Is(got.err, context.Canceled) {
				t.Errorf("the one who left got %v, want context.Canceled", got.err)
			}
			close(m.gate)
			if got := <-second; got.err != nil || got.count.Connections != 7 {
				t.Errorf("the one who stayed got %+v, want 7", got)
			}
			if got := m.dialled(); got != 1 {
				t.Errorf("dialled %d times, want once", got)
			}
		})
	})
}

func TestAConnectionThatNobodyWaitsForIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := meet(t, http2, answering("7"))
		m.gate = make(chan struct{}) // stays closed: the dial ends by its context only
		ctx, leave := context.WithCancel(t.Context())
		first, second := countLater(ctx, m.prober, somewhere), countLater(ctx, m.prober, somewhere)
		synctest.Wait()
		leave()
		for _, done := range []<-chan outcome{first, second} {
			if got := <-done; !errors.Is(got.err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", got.err)
			}
		}
		m.mu.Lock()
		m.gate = nil
		m.mu.Unlock()
		if got := <-countLater(t.Context(), m.prober, somewhere); got.err != nil {
			t.Errorf("the next one got %v: it must not share a connection that ends", got.err)
		}
		if got := m.dialled(); got != 2 {
			t.Errorf("dialled %d times, want twice", got)
		}
	})
}

func TestMakingAConnectionIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := meet(t, http2, answering("7"))
		m.gate = make(chan struct{})
		got := <-countLater(t.Context(), m.prober, somewhere)
		if !errors.Is(got.err, context.DeadlineExceeded) || got.after != 5*time.Second {
			t.Errorf("got %v after %v, want a timeout after 5s", got.err, got.after)
		}
	})
}

func TestACallWithoutADeadlineIsBounded(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			m := meet(t, p, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			got := <-countLater(context.Background(), m.prober, somewhere)
			if !errors.Is(got.err, context.DeadlineExceeded) || got.after != 30*time.Second {
				t.Errorf("got %v after %v, want a timeout after 30s", got.err, got.after)
			}
		})
	})
}

func TestASilentConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		timeout time.Duration
		conns   int
	}{
		{"silent for two seconds", 2 * time.Second, 2},
		{"a caller in a hurry", 100 * time.Millisecond, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range []protocol{http2, h2c} {
				t.Run(string(p), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						var silent atomic.Bool
						m := meet(t, p, func(w http.ResponseWriter, r *http.Request) {
							if silent.Load() {
								<-r.Context().Done()
							}
							_, _ = io.WriteString(w, "7")
						})
						if got := <-countLater(t.Context(), m.prober, somewhere); got.err != nil {
							t.Fatal(got.err)
						}
						silent.Store(true)
						ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
						defer cancel()
						if got := <-countLater(ctx, m.prober, somewhere); !errors.Is(got.err, context.DeadlineExceeded) {
							t.Fatalf("got %+v, want a timeout", got)
						}
						silent.Store(false)
						if got := <-countLater(t.Context(), m.prober, somewhere); got.err != nil {
							t.Error(got.err)
						}
						time.Sleep(31 * time.Second) // less than a connection may be idle
						synctest.Wait()
						if all, open := m.accepted(); all != test.conns || open != 1 {
							t.Errorf("%d connections, %d open, want %d and one open", all, open, test.conns)
						}
					})
				})
			}
		})
	}
}

// In a crowd one answer may be late: the connection serves the others, and to leave it would cost all of them a handshake.
func TestAConnectionWithAnswersIsNotSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		m := meet(t, http2, func(w http.ResponseWriter, r *http.Request) {
			if hang.Swap(false) {
				<-r.Context().Done()
			}
			_, _ = io.WriteString(w, "7")
		})
		hang.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		late := countLater(ctx, m.prober, somewhere)
		time.Sleep(time.Second)
		if got := <-countLater(t.Context(), m.prober, somewhere); got.err != nil {
			t.Error(got.err)
		}
		if got := <-late; !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("got %+v, want a timeout", got)
		}
		if got := <-countLater(t.Context(), m.prober, somewhere); got.err != nil || m.dialled() != 1 {
			t.Errorf("got %v after %d connections, want a count on the first one", got.err, m.dialled())
		}
	})
}

func TestADeadConnectionIsReplacedAndClosed(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			m := meet(t, p, answering("7"))
			if got := <-countLater(t.Context(), m.prober, somewhere); got.err != nil {
				t.Fatal(got.err)
			}
			m.links[0].dead.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if got := <-countLater(ctx, m.prober, somewhere); !errors.Is(got.err, context.DeadlineExceeded) {
				t.Errorf("got %+v over the dead connection, want a timeout", got)
			}
			if got := <-countLater(t.Context(), m.prober, somewhere); got.err != nil || got.after != 0 {
				t.Errorf("got %+v, want an answer at once over a fresh connection", got)
			}
			time.Sleep(59 * time.Second)
			if !m.links[0].closed.Load() {
				t.Error("the dead connection is open after a minute")
			}
			if m.links[1].closed.Load() {
				t.Error("the fresh connection is closed before its time")
			}
		})
	})
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			m := meet(t, p, answering("7"))
			count := func() {
				t.Helper()
				if got := <-countLater(t.Context(), m.prober, somewhere); got.err != nil {
					t.Fatal(got.err)
				}
			}
			count()
			for range 5 { // used every 50 s it stays
				time.Sleep(50 * time.Second)
				count()
			}
			if all, open := m.accepted(); all != 1 || open != 1 {
				t.Errorf("%d connections, %d open, want one that is", all, open)
			}
			time.Sleep(91 * time.Second)
			synctest.Wait()
			if _, open := m.accepted(); open != 0 {
				t.Errorf("%d connections are open after 91 s, want none", open)
			}
			if servers, conns := balance.PooledForTest(m.prober); servers != 0 || conns != 0 {
				t.Errorf("%d servers and %d connections are remembered, want none", servers, conns)
			}
			count() // and it all begins anew
		})
	})
}

func TestTheServerUnusedForLongestIsForgottenWhenThereAreTooMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := meet(t, h2c, answering("7"))
		for port := range uint16(balance.MaxTargetsForTest + 1) {
			endpoint := somewhere
			endpoint.Port = port + 1
			if got := <-countLater(t.Context(), m.prober, endpoint); got.err != nil {
				t.Fatal(got.err)
			}
			time.Sleep(time.Millisecond) // so that one has been unused for longest
		}
		synctest.Wait()
		if servers, _ := balance.PooledForTest(m.prober); servers != balance.MaxTargetsForTest {
			t.Errorf("%d servers are remembered, want %d", servers, balance.MaxTargetsForTest)
		}
		for i, link := range m.links {
			if closed := link.closed.Load(); closed != (i == 0) {
				t.Errorf("connection %d is closed: %t, want only the first one closed", i, closed)
			}
		}
	})
}

func TestRTTLeavesTheDialOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := meet(t, h2c, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(30 * time.Millisecond)
			_, _ = io.WriteString(w, "7")
		})
		m.gate = make(chan struct{})
		time.AfterFunc(time.Second, func() { close(m.gate) })
		got := <-countLater(t.Context(), m.prober, somewhere)
		if got.err != nil || got.count.RTT != 30*time.Millisecond || got.after != 1030*time.Millisecond {
			t.Errorf("got %+v, want an RTT of 30ms after 1.03s", got)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	stages := []struct {
		name  string
		gated bool
		calls int
	}{
		{"a dial", true, 1},
		{"a shared dial", true, 10},
		{"an exchange", false, 1},
		{"calls that wait for a turn", false, 2 * balance.MaxConnsForTest},
	}
	for _, stage := range stages {
		t.Run(stage.name, func(t *testing.T) {
			t.Parallel()
			eachProtocol(t, func(t *testing.T, p protocol) {
				synctest.Test(t, func(t *testing.T) {
					m := meet(t, p, silent)
					if stage.gated {
						m.gate = make(chan struct{})
					}
					var calls []<-chan outcome
					for range stage.calls {
						calls = append(calls, countLater(t.Context(), m.prober, somewhere))
					}
					synctest.Wait()
					if err := m.prober.Close(); err != nil {
						t.Error(err)
					}
					for _, call := range calls {
						if got := <-call; !errors.Is(got.err, balance.ErrProberClosed) || got.after != 0 {
							t.Errorf("got %v after %v, want ErrProberClosed at once", got.err, got.after)
						}
					}
					synctest.Wait()
					if _, open := m.accepted(); open != 0 {
						t.Errorf("%d connections are open, want none", open)
					}
				})
			})
		})
	}
}

func TestCallsOfAClosedProber(t *testing.T) {
	t.Parallel()
	prober := newProber(t, balance.ProberConfig{})
	for range 2 {
		if err := prober.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := prober.Count(t.Context(), somewhere)
	checkProbeError(t, err, somewhere, "count")
	_, reserveErr := prober.Reserve(t.Context(), somewhere, balance.ReserveRequest{})
	checkProbeError(t, reserveErr, somewhere, "reserve")
	if !errors.Is(err, balance.ErrProberClosed) || !errors.Is(reserveErr, balance.ErrProberClosed) {
		t.Errorf("got %v and %v, want ErrProberClosed", err, reserveErr)
	}
}

// The whole of it, on real sockets.
func TestLeastConnectionsOverTheProber(t *testing.T) {
	t.Parallel()
	busy, quiet := startServer(t, http2, answering("9")), startServer(t, http1, answering("2"))
	config := busy.trusting(http2)
	prober := newProber(t, config)
	strategy := newLeastConnections(t, quick(prober))
	selection := pick(t, strategy, []discover.Endpoint{busy.endpoint(), quiet.endpoint()})
	if selection.Endpoint.Addr() != quiet.endpoint().Addr() || !slices.Equal(selection.Endpoint.Addrs, quiet.endpoint().Addrs) {
		t.Errorf("picked %s on %v, want %s", selection.Endpoint, selection.Endpoint.Addrs, quiet.endpoint())
	}
	if !selection.Reservation.Made {
		t.Errorf("no reservation: %v", selection.ReserveErr)
	}
	requests := quiet.requests()
	if len(requests) != 2 || requests[1].Method != http.MethodPost {
		t.Errorf("%d requests to the winner, want a probe and a reservation", len(requests))
	}
	if len(busy.requests()) != 1 {
		t.Errorf("%d requests to the other one, want a probe", len(busy.requests()))
	}
	if all, _ := quiet.accepted(); all != 1 {
		t.Errorf("%d connections to the winner, want one", all)
	}
}

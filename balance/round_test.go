// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

func TestLeastConnectionsTimes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		servers map[string]server
		timeout time.Duration
		took    time.Duration
		picked  string // any of these
		errs    string // candidates without a count
	}{
		{
			name:    "a silent candidate has 2 s",
			servers: map[string]server{"a": {silent: true}, "b": {count: 9}},
			took:    2 * time.Second, picked: "b", errs: "a",
		}, {
			name:    "a slow candidate is waited for",
			servers: map[string]server{"a": {count: 1, after: 1999 * time.Millisecond}, "b": {count: 9}},
			took:    1999 * time.Millisecond, picked: "a",
		}, {
			name:    "an answer after 2 s does not count",
			servers: map[string]server{"a": {count: 1, after: 2001 * time.Millisecond}, "b": {count: 9}},
			took:    2 * time.Second, picked: "b", errs: "a",
		}, {
			name:    "the timeout is settable",
			servers: map[string]server{"a": {silent: true}, "b": {}},
			timeout: 300 * time.Millisecond,
			took:    300 * time.Millisecond, picked: "b", errs: "a",
		}, {
			name:    "all are asked at once: many silent ones take no longer than one",
			servers: map[string]server{"a": {silent: true}, "b": {silent: true}, "c": {silent: true}, "d": {}},
			took:    2 * time.Second, picked: "d", errs: "abc",
		}, {
			name:    "a failure does not take time",
			servers: map[string]server{"a": {err: errBadAnswer}, "b": {count: 9}},
			took:    0, picked: "b", errs: "a",
		}, {
			name:    "a reservation has 2 s and takes nothing from the pick",
			servers: map[string]server{"a": {reserveSilent: true}, "b": {count: 9}},
			took:    2 * time.Second, picked: "a",
		}, {
			name:    "a prober that ignores its context does not hold Select up",
			servers: map[string]server{"a": {deaf: true}, "b": {count: 9}},
			took:    2100 * time.Millisecond, picked: "b", errs: "a",
		}, {
			name:    "nor when it ignores it in the reservation",
			servers: map[string]server{"a": {deaf: true}, "b": {deaf: true}},
			took:    4100 * time.Millisecond, picked: "ab", errs: "ab",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				prober := &fakeProber{servers: test.servers, release: make(chan struct{})}
				config := quick(prober)
				config.Timeout = test.timeout
				strategy := newLeastConnections(t, config)
				list := "abcd"[:len(test.servers)]
				began := time.Now()
				selection := pick(t, strategy, nodes(list))
				took := time.Since(began)
				close(prober.release)
				if took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if !strings.Contains(test.picked, selection.Endpoint.Host) {
					t.Errorf("picked %s, want one of %s", selection.Endpoint.Host, test.picked)
				}
				failed := ""
				for _, observation := range selection.Observations {
					if observation.Err != nil {
						failed += observation.Endpoint.Host
					}
				}
				if failed != test.errs {
					t.Errorf("without a count: %q, want %q", failed, test.errs)
				}
			})
		})
	}
}

func TestLeastConnectionsDoesNotWaitForWhoWasSilent(t *testing.T) {
	t.Parallel()
	silent := server{silent: true}
	type turn struct {
		change map[string]server
		list   string // the candidates
		took   time.Duration
		picked string
		failed string
	}
	tests := []struct {
		name  string
		turns []turn
	}{{
		name: "it is waited for once, and no more while it is silent",
		turns: []turn{
			{map[string]server{"a": silent, "b": {count: 5}, "c": {count: 6}}, "abc", 2 * time.Second, "b", "a"},
			{nil, "abc", 0, "b", "a"},
			{nil, "abc", 0, "b", "a"},
		},
	}, {
		name: "its answer counts while others are awaited, and it is waited for again after that",
		turns: []turn{
			{map[string]server{"a": silent, "b": {count: 5, after: 20 * time.Millisecond}}, "ab", 2 * time.Second, "b", "a"},
			{map[string]server{"a": {after: 10 * time.Millisecond}}, "ab", 20 * time.Millisecond, "a", ""},
			{map[string]server{"a": {after: time.Second}}, "ab", time.Second, "a", ""},
		},
	}, {
		name: "its answer comes too late",
		turns: []turn{
			{map[string]server{"a": silent, "b": {count: 5, after: 20 * time.Millisecond}}, "ab", 2 * time.Second, "b", "a"},
			{map[string]server{"a": {after: 30 * time.Millisecond}}, "ab", 20 * time.Millisecond, "b", "a"},
		},
	}, {
		name: "a bad answer is no silence",
		turns: []turn{
			{map[string]server{"a": silent, "b": {count: 5, after: 20 * time.Millisecond}}, "ab", 2 * time.Second, "b", "a"},
			{map[string]server{"a": {err: errBadAnswer}}, "ab", 20 * time.Millisecond, "b", "a"},
			{map[string]server{"a": {after: time.Second}}, "ab", time.Second, "a", ""},
		},
	}, {
		name: "all were silent: all are waited for",
		turns: []turn{
			{map[string]server{"a": silent, "b": silent}, "ab", 2 * time.Second, "ab", "ab"},
			{map[string]server{"a": {count: 5}, "b": {count: 1, after: time.Second}}, "ab", time.Second, "b", ""},
		},
	}, {
		name: "the others fail: it is waited for after all",
		turns: []turn{
			{map[string]server{"a": silent, "b": {}}, "ab", 2 * time.Second, "b", "a"},
			{map[string]server{"a": {after: time.Second}, "b": {err: errBadAnswer}}, "ab", time.Second, "a", "b"},
		},
	}, {
		name: "its silence is remembered over a round in which it took no part",
		turns: []turn{
			{map[string]server{"a": silent, "b": {}, "c": {count: 1}}, "abc", 2 * time.Second, "b", "a"},
			{nil, "bc", 0, "b", ""},
			{nil, "abc", 0, "b", "a"},
		},
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				prober := &fakeProber{servers: map[string]server{}}
				strategy := newLeastConnections(t, quick(prober))
				for i, turn := range test.turns {
					for host, server := range turn.change {
						prober.set(host, server)
					}
					began := time.Now()
					selection := pick(t, strategy, nodes(turn.list))
					if took := time.Since(began); took != turn.took {
						t.Errorf("round %d took %v, want %v", i, took, turn.took)
					}
					if !strings.Contains(turn.picked, selection.Endpoint.Host) {
						t.Errorf("round %d picked %s, want one of %s", i, selection.Endpoint.Host, turn.picked)
					}
					failed := ""
					for _, observation := range selection.Observations {
						if observation.Err != nil {
							failed += observation.Endpoint.Host
						}
						if bad := errors.Is(observation.Err, errBadAnswer); observation.Silent != (observation.Err != nil && !bad) {
							t.Errorf("round %d: %s silent %t with error %v", i, observation.Endpoint.Host, observation.Silent, observation.Err)
						}
					}
					if failed != turn.failed {
						t.Errorf("round %d: without a count %q, want %q", i, failed, turn.failed)
					}
				}
			})
		})
	}
}

// A server that is slower than the others, but well, is not overlooked for good because it was silent once.
func TestLeastConnectionsWaitsAgainForWhoWasSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := &fakeProber{servers: map[string]server{"a": {silent: true}, "b": {count: 5}}}
		strategy := newLeastConnections(t, quick(prober))
		pick(t, strategy, nodes("ab"))
		prober.set("a", server{after: 20 * time.Millisecond})
		for _, turn := range []struct {
			pause time.Duration
			want  string
		}{{10 * time.Second, "b"}, {17 * time.Second, "b"}, {time.Second, "a"}, {0, "a"}} {
			time.Sleep(turn.pause)
			if got := pick(t, strategy, nodes("ab")).Endpoint.Host; got != turn.want {
				t.Errorf("%v later it picks %s, want %s", turn.pause, got, turn.want)
			}
		}
	})
}

func TestLeastConnectionsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		server server
		config balance.LeastConnectionsConfig
		after  time.Duration
		want   error // nil: a selection
	}{
		{"in the wait", server{}, balance.LeastConnectionsConfig{MaxJitter: time.Minute}, time.Microsecond, context.DeadlineExceeded},
		{"in the probes", server{silent: true}, balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter}, time.Second, context.DeadlineExceeded},
		{"in probes that ignore it", server{deaf: true}, balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter}, time.Second, context.DeadlineExceeded},
		{"in the reservation: the pick stands", server{reserveSilent: true}, balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter}, time.Second, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				prober := &fakeProber{servers: map[string]server{"a": test.server, "b": test.server}, release: make(chan struct{})}
				test.config.Prober = prober
				strategy := newLeastConnections(t, test.config)
				ctx, cancel := context.WithTimeout(t.Context(), test.after)
				defer cancel()
				began := time.Now()
				selection, err := strategy.Select(ctx, nodes("ab"))
				took := time.Since(began)
				close(prober.release)
				if took != test.after {
					t.Errorf("took %v, want %v", took, test.after)
				}
				if !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if test.want == nil && (selection.Endpoint.Host == "" || selection.ReserveErr == nil) {
					t.Errorf("got %+v, want a pick and the reason for no reservation", selection)
				}
			})
		})
	}
}

func TestLeastConnectionsBoundsTheProbesAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 3*balance.MaxAskedForTest + 1
		servers, candidates := map[string]server{}, make([]discover.Endpoint, n)
		for i := range n {
			candidates[i] = node(fmt.Sprintf("n%d", i))
			servers[candidates[i].Host] = server{count: 1000 - i, after: 100 * time.Millisecond}
		}
		prober := &fakeProber{servers: servers}
		began := time.Now()
		selection := pick(t, newLeastConnections(t, quick(prober)), candidates)
		if took := time.Since(began); took != 400*time.Millisecond {
			t.Errorf("took %v, want 400ms: four batches", took)
		}
		if prober.most != balance.MaxAskedForTest {
			t.Errorf("%d probes at a time, want %d", prober.most, balance.MaxAskedForTest)
		}
		if want := candidates[n-1].Host; selection.Endpoint.Host != want {
			t.Errorf("picked %s, want %s, the minimum of all", selection.Endpoint.Host, want)
		}
	})
}

func TestLeastConnectionsEndsARoundOfTooManySlowOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 3 * balance.MaxAskedForTest
		servers, candidates := map[string]server{}, make([]discover.Endpoint, n)
		for i := range n {
			candidates[i] = node(fmt.Sprintf("n%d", i))
			servers[candidates[i].Host] = server{after: 1500 * time.Millisecond}
		}
		config := quick(&fakeProber{servers: servers})
		config.Classic = true // which asks all of them at once
		strategy := newLeastConnections(t, config)
		began := time.Now()
		selection := pick(t, strategy, candidates)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v, want 2s", took)
		}
		answered := 0
		for _, observation := range selection.Observations {
			if observation.Silent {
				t.Errorf("%s is silent, want it to have had too little time", observation.Endpoint)
			}
			if observation.Err == nil {
				answered++
			} else if !strings.HasPrefix(observation.Err.Error(), "count ") && !errors.Is(observation.Err, context.DeadlineExceeded) {
				t.Errorf("unclear reason for no count: %v", observation.Err)
			}
		}
		if answered != balance.MaxAskedForTest {
			t.Errorf("%d answers, want those of the first %d", answered, balance.MaxAskedForTest)
		}
	})
}

func TestLeastConnectionsTakesANegativeCountForABadAnswer(t *testing.T) {
	t.Parallel()
	prober := &fakeProber{servers: map[string]server{"a": {count: -1}, "b": {count: 7}}}
	selection := pick(t, newLeastConnections(t, quick(prober)), nodes("ab"))
	if selection.Endpoint.Host != "b" || !errors.Is(selection.Observations[0].Err, balance.ErrNotCount) {
		t.Errorf("picked %s, first observation %+v, want b and ErrNotCount", selection.Endpoint, selection.Observations[0])
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
)

// weighing gives addresses weights.
func weighing(weights ...uint32) []resolver.Endpoint {
	endpoints := addresses(len(weights))
	for i, w := range weights {
		endpoints[i] = weight.Set(endpoints[i], weight.EndpointInfo{Weight: w})
	}
	return endpoints
}

// pickFor picks n times and counts by address. The calls end at once.
func pickFor(tb testing.TB, picker balancer.Picker, n int) map[string]int {
	tb.Helper()
	counts := make(map[string]int)
	for range n {
		counts[pickAddr(tb, picker)]++
	}
	return counts
}

func pickAddr(tb testing.TB, picker balancer.Picker) string {
	tb.Helper()
	addr, done := pickHold(tb, picker)
	done(balancer.DoneInfo{})
	return addr
}

// pickHold picks and leaves the end of the call to the caller.
func pickHold(tb testing.TB, picker balancer.Picker) (string, func(balancer.DoneInfo)) {
	tb.Helper()
	result, err := picker.Pick(balancer.PickInfo{Ctx: context.Background()})
	if err != nil {
		tb.Fatal(err)
	}
	done := result.Done
	if done == nil {
		done = func(balancer.DoneInfo) {}
	}
	return result.SubConn.(*fakeSubConn).addr, done
}

func TestPickAllocatesNothing(t *testing.T) {
	for _, name := range policies() {
		for _, endpoints := range [][]resolver.Endpoint{addresses(1), addresses(10), weighing(1, 2, 3, 4)} {
			t.Run(fmt.Sprintf("%s of %d", name, len(endpoints)), func(t *testing.T) {
				picker := readyPicker(t, name, endpoints)
				if got := testing.AllocsPerRun(1000, func() { pickOnce(t, picker, balancer.PickInfo{}) }); got != 0 {
					t.Errorf("a pick allocates %v times, want 0", got)
				}
			})
		}
	}
}

func TestRoundRobinTakesEachInTurn(t *testing.T) {
	t.Parallel()
	picker := readyPicker(t, policy.RoundRobin, addresses(3))
	for addr, n := range pickFor(t, picker, 9) {
		if n != 3 {
			t.Errorf("%s got %d of 9 picks, want 3", addr, n)
		}
	}
}

func TestRoundRobinRespectsWeightsAtEvenDistances(t *testing.T) {
	t.Parallel()
	for _, weights := range [][]uint32{{90, 10}, {1, 2, 3, 4}, {1, 0, 5}, {math.MaxUint32, 1}, {65535, 1, 1, 1}, {7, 7, 7, 8}} {
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			t.Parallel()
			picker := readyWeighted(t, policy.RoundRobin, weights...)
			total := 0.0
			for _, w := range weights {
				total += float64(max(1, w))
			}
			const picks = 10_000
			last, gaps := make(map[string]int), make(map[string][2]int) // shortest and longest
			counts := make(map[string]int)
			for i := range picks {
				addr := pickAddr(t, picker)
				if before, ok := last[addr]; ok {
					gap, known := gaps[addr]
					if !known {
						gap[0] = picks
					}
					gaps[addr] = [2]int{min(gap[0], i-before), max(gap[1], i-before)}
				}
				last[addr] = i
				counts[addr]++
			}
			for i, w := range weights {
				addr := addresses(len(weights))[i].Addresses[0].Addr
				share := float64(max(1, w)) / total
				if off := math.Abs(float64(counts[addr]) - picks*share); off > 4 {
					t.Errorf("weight %d got %d picks, want %.1f", w, counts[addr], picks*share)
				}
				if longest := float64(gaps[addr][1]); picks*share > 10 && longest > 3/share+2 {
					t.Errorf("weight %d waited for %.0f picks, want at most about %.0f", w, longest, 3/share)
				}
			}
		})
	}
}

func TestRandomRespectsWeights(t *testing.T) {
	t.Parallel()
	for _, weights := range [][]uint32{{90, 10}, {1, 1}, {1, 2, 3, 4}, {5, 0}} {
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			t.Parallel()
			wantShares(t, readyWeighted(t, policy.Random, weights...), weights)
		})
	}
}

func TestIdleLeastRequestRespectsWeights(t *testing.T) {
	t.Parallel()
	for _, weights := range [][]uint32{{90, 10}, {1, 1}, {1, 2, 3, 4}} {
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			t.Parallel()
			wantShares(t, readyWeighted(t, policy.LeastRequest, weights...), weights)
		})
	}
}

// wantShares checks the shares of 20 000 picks to six standard deviations.
func wantShares(tb testing.TB, picker balancer.Picker, weights []uint32) {
	tb.Helper()
	total := 0.0
	for _, w := range weights {
		total += float64(max(1, w))
	}
	const picks = 20_000
	counts := pickFor(tb, picker, picks)
	for i, w := range weights {
		share := float64(max(1, w)) / total
		want, spread := picks*share, 6*math.Sqrt(picks*share*(1-share))
		if got := float64(counts[addresses(len(weights))[i].Addresses[0].Addr]); math.Abs(got-want) > spread {
			tb.Errorf("weight %d got %.0f of %d picks, want %.0f +- %.0f", w, got, picks, want, spread)
		}
	}
}

// readyWeighted waits as readyPicker does, without leaving it to picks to see all of them.
func readyWeighted(tb testing.TB, name string, weights ...uint32) balancer.Picker {
	tb.Helper()
	channel, _ := newPolicy(tb, name, weighing(weights...))
	channel.untilReady(tb, len(weights))
	return channel.latest().Picker
}

func TestLoadedLeastRequestRespectsWeights(t *testing.T) {
	t.Parallel()
	picker := readyWeighted(t, policy.LeastRequest, 90, 10)
	counts := make(map[string]int)
	for range 1000 {
		addr, _ := pickHold(t, picker) // none of them ends
		counts[addr]++
	}
	if got := counts["10.0.0.0:1"]; got < 870 || got > 930 {
		t.Errorf("the endpoint of weight 90 has %d of 1000 calls in flight, want about 900", got)
	}
}

func TestLeastRequestKeepsCallsInFlightEven(t *testing.T) {
	t.Parallel()
	picker := readyPicker(t, policy.LeastRequest, addresses(10))
	counts := make(map[string]int)
	for range 1000 {
		addr, _ := pickHold(t, picker)
		counts[addr]++
	}
	for addr, n := range counts {
		if n < 97 || n > 103 {
			t.Errorf("%s has %d calls in flight, want 100 +- 3", addr, n)
		}
	}
}

func TestMoreChoicesFindTheIdleOneMoreOften(t *testing.T) {
	t.Parallel()
	for choices, want := range map[int]float64{2: 0.2, 3: 0.28, 10: 0.656} {
		t.Run(fmt.Sprint(choices), func(t *testing.T) {
			t.Parallel()
			channel, built := newPolicy(t, policy.LeastRequest, nil)
			err := built.UpdateClientConnState(balancer.ClientConnState{
				ResolverState:  resolver.State{Endpoints: addresses(10)},
				BalancerConfig: parse(t, policy.LeastRequest, fmt.Sprintf(`{"choiceCount":%d}`, choices)),
			})
			if err != nil {
				t.Fatal(err)
			}
			channel.untilReady(t, 10)
			picker := channel.latest().Picker
			busy := make(map[string]bool)
			for len(busy) < 9 {
				addr, done := pickHold(t, picker)
				if busy[addr] {
					done(balancer.DoneInfo{})
				}
				busy[addr] = true
			}
			const picks = 5000
			idle := 0
			for range picks {
				if !busy[pickAddr(t, picker)] {
					idle++
				}
			}
			if got := float64(idle) / picks; math.Abs(got-want) > 0.04 {
				t.Errorf("the idle one of ten was found in %.3f of the picks, want about %.3f", got, want)
			}
		})
	}
}

func TestStreamCountsUntilItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.startAll("a", "b")
		c := w.client(policy.LeastRequest, "{}")
		c.update("a", "b")
		settle()
		ctx, cancel := context.WithCancel(t.Context())
		stream := c.holdOn(ctx, "b")
		synctest.Wait()
		time.Sleep(time.Hour)
		if got := c.tally(50); got["b"] != 0 {
			t.Errorf("got %v: calls went where a stream is open, though the other server is idle", got)
		}
		cancel()
		if err := <-ended(stream); status.Code(err) != codes.Canceled {
			t.Errorf("got %v, want Canceled", err)
		}
		wantServers(t, c, "a", "b")
	})
}

func TestEndpointThatFailsAtOnceAttractsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := w.startAll("a", "b", "c", "d")
		broken := status.Error(codes.Unavailable, "broken")
		nodes[3].answer.Store(&broken)
		c := w.client(policy.LeastRequest, "{}")
		c.update("a", "b", "c", "d")
		settle()
		failed := 0
		const calls = 10_000
		for range calls { // 1000 calls in a second, one after another: the counters alone would see all of them idle
			if _, err := c.who(); err != nil {
				failed++
			}
			time.Sleep(time.Millisecond)
		}
		// A failure counts for at least a second: not many more than one a second, by chance of two choices at once.
		if failed > 20 {
			t.Errorf("%d of %d calls failed, want at most 20: one in four would be without the penalty", failed, calls)
		}
		nodes[3].answer.Store(nil)
		time.Sleep(2 * time.Second)
		wantServers(t, c, "a", "b", "c", "d")
	})
}

func TestAnswersThatAreTheCallersFaultArePenalised(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]bool{
		codes.NotFound: false, codes.InvalidArgument: false, codes.Canceled: false, codes.DeadlineExceeded: false,
		codes.Unavailable: true, codes.Internal: true, codes.ResourceExhausted: true, codes.Unknown: true, codes.Unimplemented: true,
	} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				picker := readyPicker(t, policy.LeastRequest, addresses(2))
				addr, done := pickHold(t, picker)
				done(balancer.DoneInfo{Err: status.Error(code, "")})
				avoided := pickFor(t, picker, 100)[addr] == 0
				if avoided != want {
					t.Errorf("avoided for a second: got %v, want %v", avoided, want)
				}
				time.Sleep(1300 * time.Millisecond)
				if pickFor(t, picker, 100)[addr] == 0 {
					t.Error("avoided for longer than 1.25 s")
				}
			})
		})
	}
}

func TestPickPassesOverWhatHasJustDied(t *testing.T) {
	t.Parallel()
	for _, name := range policies() {
		for _, endpoints := range [][]resolver.Endpoint{addresses(4), weighing(4, 3, 2, 1)} {
			t.Run(fmt.Sprintf("%s of %d", name, len(endpoints)), func(t *testing.T) {
				t.Parallel()
				channel, _ := newPolicy(t, name, endpoints)
				channel.untilReady(t, len(endpoints))
				old := channel.latest().Picker // the one that a call holds while the connections die
				for i, sc := range channel.subConns()[1:] {
					channel.hold(true)
					sc.die()
					counts := pickFor(t, old, 200)
					if counts[sc.addr] != 0 {
						t.Errorf("%d picks of a connection that has died", counts[sc.addr])
					}
					if i < 2 && len(counts) != 3-i {
						t.Errorf("got picks of %d connections, want %d", len(counts), 3-i)
					}
				}
				channel.subConns()[0].die()
				if _, err := old.Pick(balancer.PickInfo{}); err != balancer.ErrNoSubConnAvailable { //nolint:errorlint // grpc-go compares so
					t.Errorf("got %v when all have died, want that the call waits for a new picker", err)
				}
			})
		}
	}
}

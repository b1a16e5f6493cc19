// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
)

// quiet runs a test of a policy over a channel without a network, in a bubble.
func quiet(t *testing.T, f func(t *testing.T, channel *fakeChannel, built balancer.Balancer)) {
	t.Helper()
	t.Parallel()
	for _, name := range policies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				channel, built := newPolicy(t, name, nil)
				channel.hold(true)
				f(t, channel, built)
			})
		})
	}
}

func give(tb testing.TB, built balancer.Balancer, endpoints []resolver.Endpoint) {
	tb.Helper()
	err := built.UpdateClientConnState(balancer.ClientConnState{ResolverState: resolver.State{Endpoints: endpoints}})
	if err != nil {
		tb.Fatal(err)
	}
	synctest.Wait()
}

func wantPublished(tb testing.TB, channel *fakeChannel, want int, what string) {
	tb.Helper()
	if got := channel.publications(); got != want {
		tb.Errorf("%s: got %d pickers so far, want %d", what, got, want)
	}
}

func TestFirstReadyAndEveryDeathArePublishedAtOnceAndJoinersTogether(t *testing.T) {
	quiet(t, func(t *testing.T, channel *fakeChannel, built balancer.Balancer) {
		give(t, built, addresses(100))
		wantPublished(t, channel, 1, "connecting")
		conns := channel.subConns()
		conns[0].become(connectivity.Ready)
		synctest.Wait()
		wantPublished(t, channel, 2, "first ready")
		for _, sc := range conns[1:50] {
			sc.become(connectivity.Ready)
		}
		synctest.Wait()
		time.Sleep(9 * time.Millisecond)
		wantPublished(t, channel, 2, "joiners within 9 ms")
		time.Sleep(2 * time.Millisecond)
		wantPublished(t, channel, 3, "joiners after 11 ms")
		if got := policy.Links(channel.latest().Picker); got != 50 {
			t.Errorf("got %d in rotation, want 50", got)
		}
		conns[51].become(connectivity.Ready)
		synctest.Wait()
		conns[7].die()
		wantPublished(t, channel, 4, "death")
		if got := policy.Links(channel.latest().Picker); got != 50 {
			t.Errorf("got %d in rotation, want 50: one has joined and one has died", got)
		}
		time.Sleep(time.Hour)
		wantPublished(t, channel, 4, "nothing more to show")
	})
}

func TestUnchangedAnswerPublishesNothing(t *testing.T) {
	quiet(t, func(t *testing.T, channel *fakeChannel, built balancer.Balancer) {
		channel.hold(false)
		give(t, built, addresses(10))
		time.Sleep(time.Second)
		before, made := channel.publications(), len(channel.subConns())
		for range 10 {
			endpoints := addresses(10)
			for i := range 5 {
				endpoints[i], endpoints[9-i] = endpoints[9-i], endpoints[i]
			}
			give(t, built, append(endpoints, endpoints[3], resolver.Endpoint{})) // one twice, and one without addresses
			time.Sleep(time.Second)
		}
		wantPublished(t, channel, before, "same endpoints")
		if got := len(channel.subConns()); got != made {
			t.Errorf("%d subchannels were made for nothing", got-made)
		}
	})
}

func TestCursorGoesOnAcrossPickers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// A new picker for each call, whose cursor would begin anew: all of them would go to the same endpoint.
		channel, built := newPolicy(t, policy.RoundRobin, addresses(4))
		channel.untilReady(t, 4)
		counts := make(map[string]int)
		for i := range 400 {
			give(t, built, addresses(4+i%2))
			synctest.Wait()
			time.Sleep(20 * time.Millisecond)
			counts[pickAddr(t, channel.latest().Picker)]++
		}
		for addr, n := range counts {
			if n > 150 {
				t.Errorf("%s got %d of 400 calls", addr, n)
			}
		}
		if len(counts) < 4 {
			t.Errorf("calls went to %d endpoints only", len(counts))
		}
	})
}

// TestEvenLoadWhileOneEndpointFlaps is what Netflix saw at 3 to 4 times the load, when a new picker began at the start.
func TestEvenLoadWhileOneEndpointFlaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		counts := make(map[string]int)
		total := 0
		for range 50 {
			channel, built := newPolicy(t, policy.RoundRobin, addresses(5))
			channel.untilReady(t, 5)
			for range 100 {
				for _, n := range []int{4, 5} {
					give(t, built, addresses(n))
					time.Sleep(20 * time.Millisecond)
					for range 3 {
						if addr := pickAddr(t, channel.latest().Picker); addr != addresses(5)[4].Addresses[0].Addr {
							counts[addr]++
							total++
						}
					}
				}
			}
			built.Close()
		}
		for addr, n := range counts {
			if share := float64(n) / float64(total); share < 0.225 || share > 0.275 {
				t.Errorf("%s got %.3f of the calls to the four that stay, want 0.25 within 10 %%", addr, share)
			}
		}
	})
}

func TestAThousandEndpointsPublishFewPickers(t *testing.T) {
	for _, name := range policies() {
		t.Run(name, func(t *testing.T) {
			channel, _ := newPolicy(t, name, addresses(1000))
			channel.untilReady(t, 1000)
			if got := channel.publications(); got > 50 {
				t.Errorf("got %d pickers, want at most 50", got)
			} else {
				t.Logf("%d pickers", got)
			}
		})
	}
}

func TestNothingIsPublishedAfterClose(t *testing.T) {
	quiet(t, func(t *testing.T, channel *fakeChannel, built balancer.Balancer) {
		give(t, built, addresses(3))
		conns := channel.subConns()
		conns[0].become(connectivity.Ready)
		conns[1].become(connectivity.Ready) // its batch is under way
		synctest.Wait()
		built.Close()
		before := channel.publications()
		conns[2].become(connectivity.Ready)
		conns[0].die()
		built.ResolverError(errors.New("too late"))
		built.ExitIdle()
		give(t, built, addresses(9))
		time.Sleep(time.Hour)
		wantPublished(t, channel, before, "after Close")
		if got := len(channel.subConns()); got != 3 {
			t.Errorf("%d subchannels were made after Close", got-3)
		}
	})
}

func TestAddressesWithoutEndpointsAreOneEachAndKeepTheirWeight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		channel, built := newPolicy(t, policy.RoundRobin, nil)
		var state resolver.State
		for i, e := range weighing(9, 1) {
			state.Addresses = append(state.Addresses, e.Addresses...)
			state.Addresses[i].BalancerAttributes = e.Attributes //nolint:staticcheck // old resolvers set it
		}
		if err := built.UpdateClientConnState(balancer.ClientConnState{ResolverState: state}); err != nil {
			t.Fatal(err)
		}
		channel.untilReady(t, 2)
		if got := pickFor(t, channel.latest().Picker, 100)["10.0.0.0:1"]; got < 87 || got > 93 {
			t.Errorf("the one of weight 9 got %d of 100 picks, want about 90", got)
		}
	})
}

func TestForeignConfigIsAnError(t *testing.T) {
	t.Parallel()
	_, built := newPolicy(t, policy.RoundRobin, nil)
	foreign := parse(t, "pick_first", "{}")
	state := balancer.ClientConnState{ResolverState: resolver.State{Endpoints: addresses(1)}, BalancerConfig: foreign}
	if err := built.UpdateClientConnState(state); !errors.Is(err, balancer.ErrBadResolverState) {
		t.Errorf("got %v, want ErrBadResolverState", err)
	}
}

func TestConfigIsReadAsProtobufWritesIt(t *testing.T) {
	t.Parallel()
	for _, name := range policies() {
		parser := balancer.Get(name).(balancer.ConfigParser)
		for text, ok := range map[string]bool{
			`{}`: true, `{"drainTimeout":"30s"}`: true, `{"drainTimeout":"0.5s"}`: true, `{"drainTimeout":null}`: true,
			`{"choiceCount":2}`: true, `{"choiceCount":100}`: true, `{"later":{"than":"us"}}`: true,
			`{"drainTimeout":"-1s"}`: false, `{"drainTimeout":"1m"}`: false, `{"drainTimeout":30}`: false, `{"drainTimeout":""}`: false,
			`{"choiceCount":1}`: false, `{"choiceCount":-1}`: false, `{"choiceCount":"two"}`: false, `[]`: false, ``: false,
		} {
			if _, err := parser.ParseConfig([]byte(text)); (err == nil) != ok {
				t.Errorf("%s: config %s: got error %v, want %s", name, text, err, map[bool]string{true: "none", false: "one"}[ok])
			}
		}
	}
}

func ExampleSetPriority() {
	endpoint := policy.SetPriority(resolver.Endpoint{Addresses: []resolver.Address{{Addr: "10.0.0.1:443"}}}, 1)
	fmt.Println(policy.Priority(endpoint))
	// Output: 1
}

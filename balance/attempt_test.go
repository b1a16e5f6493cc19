// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// tiers returns the endpoints of "ab/c": a and b of priority 0, c of priority 1.
func tiers(text string) []discover.Endpoint {
	var endpoints []discover.Endpoint
	for priority, names := range strings.Split(text, "/") {
		for _, endpoint := range nodes(names) {
			endpoint.Priority = uint16(priority)
			endpoints = append(endpoints, endpoint)
		}
	}
	return endpoints
}

// noon is the time at which the attempts of these tests are made.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// penalise returns penalties for the named endpoints that run at noon.
func penalise(names string) *balance.Penalties {
	penalties := balance.NewPenalties()
	for _, endpoint := range nodes(names) {
		penalties.Fail(endpoint.Addr(), noon)
	}
	return penalties
}

// silent are the observations of candidates that did not answer in time.
func silent(names string) []balance.Observation {
	var observations []balance.Observation
	for _, endpoint := range nodes(names) {
		observations = append(observations, balance.Observation{Endpoint: endpoint, Err: context.DeadlineExceeded, Silent: true})
	}
	return observations
}

func TestAttempt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		endpoints string
		penalised string
		mute      string // silent when last asked
		lost      string
		fails     string // one endpoint after each look at the candidates
		want      string // the candidates at each look
	}{
		{name: "nobody", endpoints: "", want: "-"},
		{name: "all of one priority", endpoints: "abc", want: "abc"},
		{name: "the lowest priority number only", endpoints: "ab/cd/e", want: "ab"},
		{name: "a failed candidate is left out", endpoints: "abc", fails: "b", want: "abc ac"},
		{name: "the next priority when all of one have failed", endpoints: "ab/cd/e", fails: "bacde", want: "ab a cd d e -"},
		{name: "an empty priority in between", endpoints: "a//b", fails: "a", want: "a b"},
		{name: "five failures are all that one priority gets", endpoints: "abcdefg/xy", fails: "abcde", want: "abcdefg bcdefg cdefg defg efg xy"},
		{name: "each priority has its own five", endpoints: "abcdef/ghijkl/m", fails: "abcdeghijk", want: "abcdef bcdef cdef def ef ghijkl hijkl ijkl jkl kl m"},
		{name: "a failure of a stranger changes nothing", endpoints: "ab", fails: "x", want: "ab ab"},
		{name: "a failure counts once", endpoints: "abcdef/x", fails: "aaaaaa", want: "abcdef bcdef bcdef bcdef bcdef bcdef bcdef"},
		{name: "one of another priority can fail", endpoints: "ab/cd", fails: "cab", want: "ab ab b d"},

		{name: "the lost server is left out of the first round", endpoints: "abc", lost: "b", want: "ac"},
		{name: "and comes back after it", endpoints: "abc", lost: "b", fails: "a", want: "ac bc"},
		{name: "the lost server is the only one", endpoints: "a", lost: "a", fails: "a", want: "a -"},
		{name: "the lost server is the only one of its priority", endpoints: "a/bc", lost: "a", fails: "a", want: "a bc"},
		{name: "the lost server is of a later priority", endpoints: "a/bc", lost: "b", fails: "a", want: "a bc"},
		{name: "the lost server is not there any more", endpoints: "ab", lost: "x", want: "ab"},

		{name: "penalised candidates wait", endpoints: "abc", penalised: "ac", want: "b"},
		{name: "until no other is left", endpoints: "abc", penalised: "ac", fails: "bc", want: "b ac a"},
		{name: "all are penalised", endpoints: "ab", penalised: "ab", want: "ab"},
		{name: "of penalised ones the shortest penalty goes first", endpoints: "abc", penalised: "aabcc", fails: "b", want: "b ac"},
		{name: "penalised ones go before the next priority", endpoints: "ab/c", penalised: "ab", fails: "ab", want: "ab b c"},

		{name: "a penalised one goes before the lost one", endpoints: "ab", penalised: "a", lost: "b", fails: "a", want: "a b"},
		{name: "after the first round the penalty decides", endpoints: "abc", penalised: "ab", lost: "c", fails: "a", want: "ab c"},
		{name: "lost and penalised", endpoints: "abc", penalised: "c", lost: "c", fails: "ab", want: "ab b c"},
		{name: "neither brings the next priority into play", endpoints: "ab/c", penalised: "a", lost: "b", fails: "ab", want: "a b c"},

		{name: "a silent one is no reason to leave the penalised ones out", endpoints: "abc", penalised: "bc", mute: "a", want: "abc"},
		{name: "but only those with the shortest penalty", endpoints: "abc", penalised: "bcc", mute: "a", want: "ab"},
		{name: "a silent one stays beside one that answers", endpoints: "abc", penalised: "c", mute: "a", want: "ab"},
		{name: "when all were silent all are asked", endpoints: "abc", penalised: "bcc", mute: "abc", want: "abc"},
		{name: "a silent one does not bring the next priority into play", endpoints: "a/b", mute: "a", fails: "a", want: "a b"},
		{name: "nor the one that was just lost", endpoints: "abc", penalised: "b", mute: "a", lost: "c", want: "ab"},
		{name: "penalised and silent", endpoints: "abc", penalised: "abbc", mute: "a", want: "ac"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lost := ""
			if test.lost != "" {
				lost = node(test.lost).Addr()
			}
			penalties := penalise(test.penalised)
			penalties.Observe(silent(test.mute), noon)
			attempt := balance.NewAttempt(tiers(test.endpoints), penalties, lost)
			look := func() string {
				candidates := attempt.Candidates(noon)
				if candidates == nil {
					return "-"
				}
				return names(candidates)
			}
			got := []string{look()}
			for _, failed := range test.fails {
				attempt.Failed(node(string(failed)))
				got = append(got, look())
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("candidates %q, want %q", got, test.want)
			}
		})
	}
}

func TestAttemptWithoutPenalties(t *testing.T) {
	t.Parallel()
	if got := names(balance.NewAttempt(tiers("ab"), nil, "").Candidates(noon)); got != "ab" {
		t.Errorf("candidates %q, want ab", got)
	}
}

func TestAttemptLooksAtPenaltiesAnew(t *testing.T) {
	t.Parallel()
	attempt := balance.NewAttempt(tiers("ab"), penalise("a"), "")
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "b"}, {29 * time.Second, "b"}, {30 * time.Second, "ab"}} {
		if got := names(attempt.Candidates(noon.Add(step.after))); got != step.want {
			t.Errorf("candidates %q after %v, want %q", got, step.after, step.want)
		}
	}
}

func TestAttemptCollapsesDuplicates(t *testing.T) {
	t.Parallel()
	attempt := balance.NewAttempt(tiers("ab/ac/d"), nil, "")
	got := names(attempt.Candidates(noon))
	attempt.Failed(node("a"))
	attempt.Failed(node("b"))
	if got += " " + names(attempt.Candidates(noon)); got != "ab c" {
		t.Errorf("candidates %q, want %q", got, "ab c")
	}
}

func TestAttemptFailsWhatASelectionNarrowed(t *testing.T) {
	t.Parallel()
	attempt := balance.NewAttempt(tiers("ab"), nil, "")
	narrowed := attempt.Candidates(noon)[0]
	narrowed.Addrs = append(narrowed.Addrs, addr1)
	attempt.Failed(narrowed)
	if got := names(attempt.Candidates(noon)); got != "b" {
		t.Errorf("candidates %q, want b", got)
	}
}

func TestAttemptOwnsItsEndpoints(t *testing.T) {
	t.Parallel()
	endpoints := tiers("ab/c")
	attempt := balance.NewAttempt(endpoints, nil, "")
	endpoints[0].Host = "changed"
	candidates := attempt.Candidates(noon)
	candidates[1].Host = "changed"
	if got := names(attempt.Candidates(noon)); got != "ab" {
		t.Errorf("candidates %q, want ab", got)
	}
	attempt.Failed(node("a"))
	if got := names(candidates[:1]); got != "a" {
		t.Errorf("earlier candidates now begin with %q, want a", got)
	}
}

// Whatever fails, an attempt ends, offers nobody again who has failed, never more than five failures of a priority, and
// no priority before the lower numbers have failed.
func TestAttemptRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const letters = "abcdefghijklmnop"
		endpoints := nodes(letters[:rapid.IntRange(0, len(letters)).Draw(t, "endpoints")])
		for i := range endpoints {
			endpoints[i].Priority = rapid.Uint16Range(0, 3).Draw(t, "priority")
		}
		penalised := rapid.StringMatching(`[a-p]{0,10}`).Draw(t, "penalised")
		lost := node(rapid.StringMatching(`[a-z]`).Draw(t, "lost")).Addr()
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))

		attempt := balance.NewAttempt(endpoints, penalise(penalised), lost)
		failed, failures, total := map[string]bool{}, map[uint16]int{}, map[uint16]int{}
		for _, endpoint := range endpoints {
			total[endpoint.Priority]++
		}
		for {
			candidates := attempt.Candidates(noon)
			if candidates == nil {
				break
			}
			if len(candidates) == 0 {
				t.Fatal("an empty set that is not nil")
			}
			for _, candidate := range candidates {
				if failed[candidate.Host] {
					t.Fatalf("%s is offered again", candidate)
				}
				if candidate.Priority != candidates[0].Priority {
					t.Fatalf("two priorities at a time: %v", candidates)
				}
			}
			priority := candidates[0].Priority
			for lower := range priority {
				if failures[lower] != min(5, total[lower]) {
					t.Fatalf("priority %d is tried after %d of %d failures of %d", priority, failures[lower], total[lower], lower)
				}
			}
			victim := candidates[random.IntN(len(candidates))]
			attempt.Failed(victim)
			failed[victim.Host] = true
			if failures[priority]++; failures[priority] > 5 {
				t.Fatalf("priority %d got more than five failures", priority)
			}
		}
		for priority, n := range total {
			if failures[priority] != min(5, n) {
				t.Fatalf("the attempt ended after %d failures of %d of priority %d", failures[priority], n, priority)
			}
		}
	})
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

// maxFailures is how many candidates of one priority may fail before the priority counts as failed.
const maxFailures = 5

// Attempt is one attempt to connect: it knows which endpoints are left to try and offers them to a Strategy, one
// priority after the other (RFC 2782).
//
// An Attempt decides and does nothing else: it has no clock and no connections. It is used by one goroutine at a time.
type Attempt struct {
	tiers     []tier // priority ascending
	penalties *Penalties
	lost      string // Addr
	tried     bool   // a candidate has failed: the first round is over
}

// tier is what is left of the endpoints of one priority.
type tier struct {
	priority uint16
	left     []discover.Endpoint
	failures int
}

// NewAttempt begins an attempt on the endpoints. Penalties may be nil. lost is the Addr of the server whose session
// was just lost, or empty. The endpoints may come in any order, which the candidates keep within their priority; of
// several with the same Addr the one of the lowest priority number counts. They are not changed.
func NewAttempt(endpoints []discover.Endpoint, penalties *Penalties, lost string) *Attempt {
	sorted := slices.Clone(endpoints)
	slices.SortStableFunc(sorted, func(a, b discover.Endpoint) int { return cmp.Compare(a.Priority, b.Priority) })
	attempt := &Attempt{penalties: penalties, lost: lost}
	seen := make(map[string]bool, len(sorted))
	for _, endpoint := range sorted {
		if seen[endpoint.Addr()] {
			continue
		}
		seen[endpoint.Addr()] = true
		last := len(attempt.tiers) - 1
		if last < 0 || attempt.tiers[last].priority != endpoint.Priority {
			attempt.tiers = append(attempt.tiers, tier{priority: endpoint.Priority})
			last++
		}
		attempt.tiers[last].left = append(attempt.tiers[last].left, endpoint)
	}
	return attempt
}

// Candidates returns the endpoints that a selection may pick now, all of one priority, or nil when the attempt is
// exhausted. The caller owns the result.
//
// They are those of the lowest priority number that has not failed: none of whose candidates are left, or of which five
// have failed. Of these, penalised ones are offered only when there are no others, and then those with the shortest
// penalty: they have failed least often, where all servers have lost sessions lately. Where all of these were silent
// when they were last asked, the next ones are offered beside them, for the strategy to ask. The server whose session was just
// lost is offered only when nobody else is, penalised or not, until the first other candidate has failed: what ended
// the session most likely has not ended yet. Neither rule brings a higher priority number into play.
func (a *Attempt) Candidates(now time.Time) []discover.Endpoint {
	for i := range a.tiers {
		if t := &a.tiers[i]; len(t.left) > 0 && t.failures < maxFailures {
			return a.preferred(t.left, now)
		}
	}
	return nil
}

// Failed leaves the endpoint out of the rest of the attempt: it was picked and could not be used. An endpoint that is
// not among those left is ignored.
func (a *Attempt) Failed(endpoint discover.Endpoint) {
	addr := endpoint.Addr()
	for i := range a.tiers {
		t := &a.tiers[i]
		at := slices.IndexFunc(t.left, func(e discover.Endpoint) bool { return e.Addr() == addr })
		if at >= 0 {
			t.left = slices.Delete(t.left, at, at+1)
			t.failures++
			a.tried = true
			return
		}
	}
}

// preferred returns the endpoints with the shortest penalty, which is none for those that are not penalised, without the
// one that was just lost unless it is the only one. Those that were silent when they were last asked do not count:
// they come along, with the others up to the first that does. It needs at least one endpoint.
func (a *Attempt) preferred(left []discover.Endpoint, now time.Time) []discover.Endpoint {
	const unknown = time.Duration(math.MaxInt64)
	spans := make([]time.Duration, len(left)) // negative: not to be offered
	enough := unknown
	for i, endpoint := range left {
		addr := endpoint.Addr()
		if addr == a.lost && !a.tried {
			spans[i] = -1
			continue
		}
		spans[i] = a.penalties.span(addr, now)
		if a.penalties.answers(addr, now) {
			enough = min(enough, spans[i])
		}
	}
	var best []discover.Endpoint
	for i, endpoint := range left {
		if spans[i] >= 0 && spans[i] <= enough {
			best = append(best, endpoint)
		}
	}
	if len(best) == 0 {
		return slices.Clone(left)
	}
	return best
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// PollResult is what a lookup of a Poller brought, or a change that its source has told.
type PollResult struct {
	// Endpoints are those that serve now: those found, or those of the last good lookup when Err says that none were.
	// Empty when there has never been a good one. The callee owns them.
	Endpoints []Endpoint
	// Err is why nothing was found, or a *PartialError about what was left out of Endpoints; nil when all is well.
	Err error
	// Class is ErrorClass(Err).
	Class string
	// Took is how long the lookup took; 0 for a change that was pushed.
	Took time.Duration
	// At is when it ended.
	At time.Time
	// Failures is how many lookups in a row have found nothing, this one included.
	Failures int
	// Next is when the poller looks again unless it is hinted; zero for a source that pushes.
	Next time.Time
	// Changed says that Endpoints differ from those of the result before in anything but their order: in a server, an
	// address, a priority or a weight. The first set is a change.
	Changed bool
	// Added, Removed and Kept count endpoints against the result before. An endpoint whose addresses have changed is
	// another one: it counts as removed and added.
	Added, Removed, Kept int
}

// The classes of errors, for metrics: few, and never more by what a name server says.
const (
	ClassNoSuchName   = "no_such_name"
	ClassNoRecords    = "no_records"
	ClassServerFailed = "server_failed"
	ClassTimeout      = "timeout"
	ClassCanceled     = "canceled"
	ClassPartial      = "partial"
	ClassPanic        = "panic"
	ClassClosed       = "closed"
	ClassOther        = "_OTHER" // as OpenTelemetry's error.type has it
)

// ErrorClass returns one of a few words for an error of a Resolver, empty for nil. A *StaleError has the class of its cause.
func ErrorClass(err error) string {
	if err == nil {
		return ""
	}
	if _, panicked := errors.AsType[*PanicError](err); panicked {
		return ClassPanic
	}
	for _, class := range []struct {
		err  error
		name string
	}{
		{ErrNoSuchName, ClassNoSuchName},
		{ErrNoRecords, ClassNoRecords},
		{ErrServerFailed, ClassServerFailed},
		{ErrTimeout, ClassTimeout},
		{ErrClosed, ClassClosed},
		{context.Canceled, ClassCanceled},
		{context.DeadlineExceeded, ClassTimeout},
	} {
		if errors.Is(err, class.err) {
			return class.name
		}
	}
	if _, partial := errors.AsType[*PartialError](err); partial {
		return ClassPartial
	}
	return ClassOther
}

// ledger keeps the last good set and compares the next one with it.
type ledger struct {
	tell func(PollResult)

	good     []Endpoint
	keys     map[string]bool // of good
	failures int
	pending  PollResult
}

// note takes what a lookup brought and says whether it found endpoints. The result waits in pending.
func (g *ledger) note(now time.Time, result lookup) bool {
	found := len(result.endpoints) > 0 && !result.stale
	if len(result.endpoints) == 0 && result.err == nil {
		result.err, result.class = &SourceError{Source: "the resolver", Kind: ErrNoRecords}, ClassNoRecords
	}
	g.failures++
	if found {
		g.failures = 0
	}
	g.pending = PollResult{
		Err: result.err, Class: result.class, Took: result.took, At: now, Failures: g.failures,
	}
	// Endpoints that a source kept from earlier are better than none, and no better than ours.
	if found || len(result.endpoints) > 0 && len(g.good) == 0 {
		g.replace(result.endpoints)
	} else {
		g.pending.Kept = len(g.keys)
	}
	g.pending.Endpoints = cloneEndpoints(g.good)
	return found
}

// replace makes a set the good one and counts what has changed.
func (g *ledger) replace(endpoints []Endpoint) {
	old, oldKeys := g.good, g.keys
	g.good = cloneEndpoints(endpoints)
	keepAddrs(g.good, old)
	g.keys = make(map[string]bool, len(endpoints))
	for _, e := range g.good {
		g.keys[serverKey(e)] = true
	}
	for key := range g.keys {
		if oldKeys[key] {
			g.pending.Kept++
		}
	}
	g.pending.Added = len(g.keys) - g.pending.Kept
	g.pending.Removed = len(oldKeys) - g.pending.Kept
	g.pending.Changed = !sameSet(old, g.good)
}

// keepAddrs gives endpoints whose addresses were not found this time those that they had. A target of SRV records that
// has no addresses for a moment is no other server.
func keepAddrs(endpoints, old []Endpoint) {
	known := make(map[string]Endpoint, len(old))
	for _, e := range old {
		known[e.Addr()] = e
	}
	for i := range endpoints {
		if e := &endpoints[i]; len(e.Addrs) == 0 {
			e.Addrs = known[e.Addr()].Addrs
		}
	}
}

// serverKey identifies an endpoint: by what it is called and where it is.
func serverKey(e Endpoint) string {
	var b strings.Builder
	b.WriteString(e.Addr())
	for _, addr := range sortedAddrs(e.Addrs) {
		b.WriteByte(' ')
		b.WriteString(addr.String())
	}
	return b.String()
}

func sortedAddrs(addrs []netip.AddrPort) []netip.AddrPort {
	sorted := slices.Clone(addrs)
	slices.SortFunc(sorted, netip.AddrPort.Compare)
	return sorted
}

// sameSet says whether two sets are equal but for the order of endpoints and of their addresses.
func sameSet(a, b []Endpoint) bool {
	return slices.EqualFunc(inOrder(a), inOrder(b), func(a, b Endpoint) bool { return compareEndpoints(a, b) == 0 })
}

// inOrder returns copies in an order that depends on nothing but their content.
func inOrder(endpoints []Endpoint) []Endpoint {
	ordered := slices.Clone(endpoints)
	for i := range ordered {
		ordered[i].Addrs = sortedAddrs(ordered[i].Addrs)
	}
	slices.SortFunc(ordered, compareEndpoints)
	return ordered
}

func compareEndpoints(a, b Endpoint) int {
	return cmp.Or(
		cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Weight, a.Weight),
		strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), strings.Compare(a.ServerName, b.ServerName),
		slices.CompareFunc(a.Addrs, b.Addrs, netip.AddrPort.Compare), compareBool(a.Absolute, b.Absolute))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

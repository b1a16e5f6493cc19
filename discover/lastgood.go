// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"sync"
	"time"
)

// LastGood returns a resolver that asks the given one every time and falls back on its last good answer.
//
// When a lookup fails with ErrNoSuchName, ErrNoRecords, ErrServerFailed or ErrTimeout and an earlier one found
// endpoints, Resolve returns the endpoints of the most recent such lookup together with a *[StaleError] that holds the
// failure. Every other error is returned as it is, a cancelled context for one. Endpoints that come with a
// *PartialError are remembered like others. A resolver that returns neither endpoints nor an error is taken to have
// found no records.
//
// One LastGood belongs to one client: a set is kept for as long as the value lives. It is safe for concurrent use.
func LastGood(resolver Resolver) Resolver {
	return &lastGood{resolver: resolver}
}

type lastGood struct {
	resolver Resolver

	mu    sync.Mutex
	good  []Endpoint // guarded by mu; never written to, only replaced
	at    time.Time  // guarded by mu: when the lookup that found good began
	saved bool       // guarded by mu
}

// Resolve implements Resolver.
func (l *lastGood) Resolve(ctx context.Context) ([]Endpoint, error) {
	began := time.Now()
	endpoints, err := l.resolver.Resolve(ctx)
	if len(endpoints) == 0 && err == nil {
		err = &LookupError{Kind: ErrNoRecords}
	}
	if len(endpoints) == 0 {
		return l.fallBack(err)
	}
	// Endpoints that another LastGood inside has kept are no fresh ones.
	if _, stale := errors.AsType[*StaleError](err); !stale {
		l.keep(endpoints, began)
	}
	return endpoints, err
}

// keep remembers a set. Of two lookups that ran at once, the one that began later wins, whichever ended first.
func (l *lastGood) keep(endpoints []Endpoint, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.saved && began.Before(l.at) {
		return
	}
	l.good, l.at, l.saved = cloneEndpoints(endpoints), began, true
}

func (l *lastGood) fallBack(err error) ([]Endpoint, error) {
	if !isLookupFailure(err) {
		return nil, err
	}
	l.mu.Lock()
	good, at := l.good, l.at
	l.mu.Unlock()
	if len(good) == 0 {
		return nil, err
	}
	return cloneEndpoints(good), &StaleError{Cause: err, At: at}
}

func isLookupFailure(err error) bool {
	return errors.Is(err, ErrNoSuchName) || errors.Is(err, ErrNoRecords) ||
		errors.Is(err, ErrServerFailed) || errors.Is(err, ErrTimeout)
}

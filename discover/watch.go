// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"strings"
)

// Watcher is a Resolver that learns of changes by itself. Sources that must be asked do not implement it.
//
// Watch starts the source where it does not run yet. It calls changed with what Resolve would return without looking
// anything up: the current set as soon as there is one, or the failure to find one, and then each change. Calls come one
// at a time from the goroutine that called Watch; while one lasts, changes add up and the next call tells the latest. The
// callee owns the endpoints. Watch blocks until ctx is done, and returns its error, or until the source has ended, and
// returns why, ErrClosed for one. Several may watch at once.
type Watcher interface {
	Resolver
	Watch(ctx context.Context, changed func(endpoints []Endpoint, err error)) error
}

// Hinter is a Resolver that looks things up in its own time and takes hints. ResolveNow asks it to look again now. It
// returns at once and promises nothing: the source may have looked a moment ago, or be told of changes anyway. One that
// is not running ignores it. Safe for concurrent use.
//
// A source with a life of its own that must be stopped implements io.Closer besides.
type Hinter interface {
	Resolver
	ResolveNow()
}

// ErrClosed is returned by a source that was closed. An earlier answer of it is not used instead.
var ErrClosed = errors.New("resolver is closed")

// SourceError says why a source that is no name server gave no endpoints, or, as the Cause of a *[StaleError], no newer
// ones. It is made by resolvers and only read by others.
type SourceError struct {
	// Source is what was asked, such as "etcd:///cluster".
	Source string
	// Kind is ErrNoRecords for a set without usable endpoints, ErrServerFailed for an error of the source, ErrTimeout
	// when it said nothing in time; nil when the caller cancelled.
	Kind error
	// Err is the cause; may be nil.
	Err error
}

// Error names the source. The words of Kind are about DNS and are not used.
func (e *SourceError) Error() string {
	var b strings.Builder
	b.WriteString("resolve " + e.Source)
	switch {
	case errors.Is(e.Kind, ErrNoRecords):
		b.WriteString(": no endpoints")
	case errors.Is(e.Kind, ErrTimeout):
		b.WriteString(": no answer in time")
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns Kind and Err, as far as they are set.
func (e *SourceError) Unwrap() []error { return causes(e.Kind, e.Err) }

// Timeout says whether no answer came in time; it is part of net.Error.
func (e *SourceError) Timeout() bool { return errors.Is(e.Kind, ErrTimeout) }

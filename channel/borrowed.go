// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import "github.com/evenkeel-go/evenkeel/discover"

// borrowed returns a source whose Close is its owner's. What else it can do stays visible.
func borrowed(resolver discover.Resolver, name string) discover.Resolver {
	watcher, watches := resolver.(discover.Watcher)
	hinter, takesHints := resolver.(discover.Hinter)
	switch {
	case watches && takesHints:
		return struct {
			discover.Watcher
			hints
			label
		}{watcher, hints{hinter}, label(name)}
	case watches:
		return struct {
			discover.Watcher
			label
		}{watcher, label(name)}
	case takesHints:
		return struct {
			discover.Hinter
			label
		}{hinter, label(name)}
	default:
		return struct {
			discover.Resolver
			label
		}{resolver, label(name)}
	}
}

// hints is the part of a Hinter that a Watcher has not.
type hints struct{ hinter discover.Hinter }

// ResolveNow passes the hint on.
func (h hints) ResolveNow() { h.hinter.ResolveNow() }

// label is how a source is called in errors.
type label string

// String implements fmt.Stringer.
func (l label) String() string { return string(l) }

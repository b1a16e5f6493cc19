// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

const (
	// addrTimeout caps looking up the addresses of one endpoint.
	addrTimeout = 2 * time.Second
	// addrLookups is how many names are looked up at once.
	addrLookups = 16
	// addrFaults bounds how many faults are told.
	addrFaults = 16
)

// addrFiller is a source whose endpoints have their addresses. A name whose addresses cannot be found now keeps those it
// had; one that never had any is left out and reported.
type addrFiller struct {
	label

	inner  discover.Resolver
	system *net.Resolver

	mu    sync.Mutex
	known map[string][]netip.Addr // guarded by mu; by name; the addresses that were found last
}

func newAddrFiller(target string, inner discover.Resolver, system *net.Resolver) *addrFiller {
	return &addrFiller{label: label(target), inner: inner, system: system, known: make(map[string][]netip.Addr)}
}

// Resolve implements discover.Resolver.
func (f *addrFiller) Resolve(ctx context.Context) ([]discover.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	endpoints, err := f.inner.Resolve(ctx)
	if len(endpoints) == 0 {
		return nil, err
	}
	faults := f.fill(ctx, endpoints)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	filled := endpoints[:0]
	for _, e := range endpoints {
		if len(e.Addrs) > 0 {
			filled = append(filled, e)
		}
	}
	return f.judge(filled, len(endpoints)-len(filled), faults, err)
}

// judge makes an error of the faults. Endpoints without any address count as an empty answer.
func (f *addrFiller) judge(filled []discover.Endpoint, dropped int, faults []error, err error) ([]discover.Endpoint, error) {
	switch {
	case len(faults) == 0:
		return filled, err
	case len(filled) == 0:
		return nil, &discover.SourceError{Source: f.String() + ": addresses of the endpoints", Kind: discover.ErrNoRecords, Err: errors.Join(faults...)}
	}
	partial := &discover.PartialError{Name: f.String(), Dropped: dropped, Faults: faults}
	return filled, errors.Join(err, partial)
}

// fill looks up the addresses of endpoints that have none, a few names at a time. It returns what went wrong.
func (f *addrFiller) fill(ctx context.Context, endpoints []discover.Endpoint) []error {
	found := make([][]netip.Addr, len(endpoints))
	errs := make([]error, len(endpoints))
	slots := make(chan struct{}, addrLookups)
	var lookups sync.WaitGroup
	for i, e := range endpoints {
		if len(e.Addrs) > 0 {
			continue
		}
		slots <- struct{}{} // a lookup ends with ctx, and then all do
		lookups.Go(func() {
			defer func() { <-slots }()
			found[i], errs[i] = f.lookUp(ctx, e)
		})
	}
	lookups.Wait()
	return f.remember(endpoints, found, errs)
}

// lookUp returns at least one address, or an error.
func (f *addrFiller) lookUp(ctx context.Context, e discover.Endpoint) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(e.Host); err == nil {
		return []netip.Addr{addr}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, addrTimeout)
	defer cancel()
	addrs, err := f.system.LookupNetIP(ctx, "ip", e.LookupName())
	// These are no server's: dialling 0.0.0.0, which some filtering name servers answer, would reach this machine.
	addrs = slices.DeleteFunc(addrs, func(addr netip.Addr) bool { return addr.IsUnspecified() || addr.IsMulticast() })
	if err == nil && len(addrs) == 0 {
		err = discover.ErrNoRecords
	}
	return addrs, err
}

// remember writes addresses into the endpoints, and keeps them for the next time.
func (f *addrFiller) remember(endpoints []discover.Endpoint, found [][]netip.Addr, errs []error) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := make(map[string][]netip.Addr, len(endpoints))
	var faults []error
	for i := range endpoints {
		e := &endpoints[i]
		addrs := found[i]
		if errs[i] != nil {
			addrs = f.known[e.LookupName()]
			if len(faults) < addrFaults {
				faults = append(faults, addrFault(e, addrs, errs[i]))
			}
		}
		for _, addr := range addrs {
			e.Addrs = append(e.Addrs, netip.AddrPortFrom(addr.Unmap(), e.Port))
		}
		for _, addr := range e.Addrs {
			known[e.LookupName()] = append(known[e.LookupName()], addr.Addr())
		}
	}
	f.known = known
	return faults
}

// addrFault says what went wrong with an endpoint, and what was done.
func addrFault(e *discover.Endpoint, kept []netip.Addr, err error) error {
	done := "it is left out"
	if len(kept) > 0 {
		done = "its earlier addresses are used"
	}
	return fmt.Errorf("%s: %w; %s", e.Addr(), err, done)
}

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

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// fillTimeout caps looking up the addresses of one name.
	fillTimeout = 2 * time.Second
	// fillSlots is how many names are looked up at once.
	fillSlots = 16
)

// AddrsConfig says whose endpoints are to have addresses.
type AddrsConfig struct {
	// Resolver is the source. It is asked only: that one is a [Watcher] or a [Hinter] is not seen through WithAddrs.
	Resolver Resolver
	// Name is how the source is called in errors; empty means what it calls itself.
	Name string
	// System looks up the addresses; nil means [SystemResolver].
	System *net.Resolver
}

// WithAddrs returns a resolver whose endpoints all have their addresses, for whoever cannot leave looking them up to the
// dialler. Names are looked up a few at a time, each for 2 s and all together with their source for 5 s. A name whose
// addresses cannot be found now keeps those that were found last; one that never had any is left out. Both are told in a
// *[PartialError]. Without any address there is a *[SourceError] that matches ErrNoRecords.
//
// The addresses are kept for as long as the value lives. It is safe for concurrent use.
func WithAddrs(config AddrsConfig) Resolver {
	f := &addrFiller{inner: config.Resolver, name: config.Name, system: config.System, known: make(map[string][]netip.Addr)}
	if f.name == "" {
		f.name = sourceName(config.Resolver)
	}
	if f.system == nil {
		f.system = SystemResolver()
	}
	return f
}

type addrFiller struct {
	inner  Resolver
	name   string
	system *net.Resolver

	mu    sync.Mutex
	known map[string][]netip.Addr // guarded by mu; by name; the addresses that were found last
}

// String is how the source is called in errors.
func (f *addrFiller) String() string { return f.name }

// Resolve implements Resolver.
func (f *addrFiller) Resolve(ctx context.Context) ([]Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	endpoints, err := f.inner.Resolve(ctx)
	if len(endpoints) == 0 {
		return nil, err
	}
	found := f.lookUpAll(ctx, endpoints)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	filled, faults := f.fill(endpoints, found)
	switch {
	case len(faults) == 0:
		return filled, err
	case len(filled) == 0:
		return nil, &SourceError{Source: f.name + ": addresses of the endpoints", Kind: ErrNoRecords, Err: errors.Join(faults...)}
	}
	dropped := len(endpoints) - len(filled)
	return filled, errors.Join(err, &PartialError{Name: f.name, Type: bothFamilies, Dropped: dropped, Faults: faults})
}

// foundAddrs is what looking up one name has brought: addresses, or an error.
type foundAddrs struct {
	addrs []netip.Addr
	err   error
}

// lookUpAll looks up each name of endpoints that have no addresses, once.
func (f *addrFiller) lookUpAll(ctx context.Context, endpoints []Endpoint) map[string]*foundAddrs {
	found := make(map[string]*foundAddrs)
	slots := make(chan struct{}, fillSlots)
	var lookups sync.WaitGroup
	for _, e := range endpoints {
		name := e.LookupName()
		if len(e.Addrs) > 0 || found[name] != nil {
			continue
		}
		of := new(foundAddrs)
		found[name] = of
		slots <- struct{}{} // a lookup ends with ctx, and then all do
		lookups.Go(func() {
			defer func() { <-slots }()
			of.addrs, of.err = f.lookUp(ctx, name)
		})
	}
	lookups.Wait()
	return found
}

// lookUp returns at least one address, or an error.
func (f *addrFiller) lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{addr}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	addrs, err := f.system.LookupNetIP(ctx, "ip", name)
	// These are no server's: dialling 0.0.0.0, which some filtering name servers answer, would reach this machine.
	addrs = slices.DeleteFunc(addrs, func(addr netip.Addr) bool { return addr.IsUnspecified() || addr.IsMulticast() })
	if err == nil && len(addrs) == 0 {
		err = ErrNoRecords
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// fill gives the endpoints their addresses, and keeps those for the next time. It returns the endpoints that have any,
// and what went wrong.
func (f *addrFiller) fill(endpoints []Endpoint, found map[string]*foundAddrs) ([]Endpoint, []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := make(map[string][]netip.Addr, len(endpoints))
	var faults []error
	for i := range endpoints {
		e := &endpoints[i]
		name := e.LookupName()
		if of := found[name]; len(e.Addrs) == 0 && of != nil {
			addrs := of.addrs
			if of.err != nil {
				addrs = f.known[name]
				faults = appendFault(faults, addrFault(e, addrs, of.err))
			}
			known[name] = addrs
			e.Addrs = withPort(addrs, e.Port)
		} else {
			known[name] = withoutPorts(known[name], e.Addrs)
		}
	}
	f.known = known
	return slices.DeleteFunc(endpoints, func(e Endpoint) bool { return len(e.Addrs) == 0 }), faults
}

// addrFault says what went wrong with an endpoint, and what was done.
func addrFault(e *Endpoint, kept []netip.Addr, err error) error {
	done := "it is left out"
	if len(kept) > 0 {
		done = "its earlier addresses are used"
	}
	return fmt.Errorf("%s: %w; %s", e.Addr(), err, done)
}

func appendFault(faults []error, fault error) []error {
	if len(faults) == maxFaults {
		return faults
	}
	return append(faults, fault)
}

func withPort(addrs []netip.Addr, port uint16) []netip.AddrPort {
	ports := make([]netip.AddrPort, 0, len(addrs))
	for _, addr := range addrs {
		ports = append(ports, netip.AddrPortFrom(addr, port))
	}
	return ports
}

// withoutPorts adds the addresses that are new.
func withoutPorts(addrs []netip.Addr, ports []netip.AddrPort) []netip.Addr {
	for _, port := range ports {
		if !slices.Contains(addrs, port.Addr()) {
			addrs = append(addrs, port.Addr())
		}
	}
	return addrs
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"strings"
	"sync"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
)

// fitting finds out which servers do not serve what a session needs. It asks each server once, without a session and
// without credentials: the question is anonymous.
type fitting struct {
	options []evenkeel.Option
	text    string          // a connection string for the asking; empty when nobody is to be asked
	asked   map[string]bool // by endpoint
	misfits map[string]error
}

// newFitting makes one for the servers of a connection string. A nil config means plaintext.
func newFitting(cs *connstring.ConnString, config *tls.Config) (*fitting, error) {
	f := &fitting{asked: make(map[string]bool), misfits: make(map[string]error)}
	if cs.SkipCompatibilityCheck {
		return f, nil
	}
	anonymous, err := connstring.New(connstring.ConnString{Hosts: cs.Hosts[:1], SkipTLSValidation: cs.SkipTLSValidation})
	if err != nil {
		return nil, err
	}
	f.text = anonymous.Unredacted()
	f.options = []evenkeel.Option{evenkeel.WithoutSession(), evenkeel.WithPlaintext()}
	if config != nil {
		f.options[1] = evenkeel.WithTLS(config)
	}
	return f, nil
}

// ask asks the servers that answered a probe and were not asked before, all at once. What gave no count is forgotten: it
// may be another version when it is back.
func (f *fitting) ask(ctx context.Context, seen []balance.Observation) error {
	if f.text == "" {
		return nil
	}
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	slots := make(chan struct{}, maxProbes)
	for _, o := range seen {
		addr := o.Endpoint.Addr()
		if o.Err != nil {
			delete(f.asked, addr)
			mu.Lock()
			delete(f.misfits, addr)
			mu.Unlock()
			continue
		}
		if f.asked[addr] {
			continue
		}
		f.asked[addr] = true
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			misfit, err := f.askOne(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			if misfit != nil {
				f.misfits[addr] = misfit
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// askOne returns why a server does not fit; nil when it does, and when that cannot be found out.
func (f *fitting) askOne(ctx context.Context, o balance.Observation) (misfit, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	endpoint := o.Endpoint
	if o.Count.Addr.IsValid() {
		endpoint.Addrs = []netip.AddrPort{o.Count.Addr}
	}
	ends := make(chan error, 1)
	end := evenkeel.WithEvents(func(e evenkeel.Event) {
		switch e.Kind {
		case evenkeel.EventConnected, evenkeel.EventCandidateFailed, evenkeel.EventBackingOff:
			select {
			case ends <- e.Err:
			default: // the first one counts
			}
		default:
		}
	})
	options := append(f.options[:len(f.options):len(f.options)], evenkeel.WithResolver(discover.Static(endpoint)), end)
	conn, err := evenkeel.New(f.text, options...)
	if err != nil {
		return nil, err
	}
	select {
	case misfit = <-ends:
	case <-ctx.Done():
	}
	if !errors.Is(misfit, evenkeel.ErrIncompatible) {
		misfit = nil
	}
	return misfit, conn.Close()
}

// candidates are the observed servers with what is known of their fitting.
func (f *fitting) candidates(seen []balance.Observation) []candidate {
	all := make([]candidate, len(seen))
	for i, o := range seen {
		all[i] = candidate{Observation: o, misfit: f.misfits[o.Endpoint.Addr()]}
	}
	return all
}

// misfitLines say of each server that does not fit why, in the order in which they were seen, and, once, what to do.
func misfitLines(a adviser, seen []candidate) []string {
	var lines []string
	advice := ""
	for _, c := range seen {
		if c.misfit == nil {
			continue
		}
		hint, cause := a.parts(c.misfit)
		lines = append(lines, sentence(cause))
		advice = cmp.Or(advice, hint)
	}
	switch {
	case len(lines) == 1:
		lines[0] += advice
	case advice != "":
		lines = append(lines, strings.TrimPrefix(advice, "; "))
	}
	return lines
}

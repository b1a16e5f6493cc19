// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"crypto/tls"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
)

// fleet is a number of clients of one cluster that share a prober. What happens to them arrives in events, in the order
// in which it happened to each.
type fleet struct {
	text    string
	prober  *balance.HTTPProber
	clients []*evenkeel.Conn

	options   []evenkeel.Option
	balancing balance.LeastConnectionsConfig
	watch     func(balance.Prober) balance.Prober // nil where nobody watches

	events chan fleetEvent
	quit   chan struct{} // closed when nobody reads events any more
}

// fleetEvent is an event of one client. Clients count from 1.
type fleetEvent struct {
	evenkeel.Event
	client int
}

// fleetConfig says what the clients of a fleet have in common.
type fleetConfig struct {
	connString *connstring.ConnString
	tls        *tls.Config // nil over plaintext
	noProxy    bool
	jitter     time.Duration
	classic    bool                                // picks as stock clients do
	watch      func(balance.Prober) balance.Prober // makes what sees what a client asks; nil for nobody
}

// newFleet makes a fleet without clients. The caller closes it.
func newFleet(config fleetConfig) (*fleet, error) {
	prober, err := balance.NewProber(balance.ProberConfig{TLS: config.tls, Plaintext: config.tls == nil, NoProxy: config.noProxy})
	if err != nil {
		return nil, err
	}
	jitter := config.jitter
	if jitter == 0 {
		jitter = balance.NoJitter
	}
	f := &fleet{
		text:      config.connString.Unredacted(),
		prober:    prober,
		events:    make(chan fleetEvent, 256),
		quit:      make(chan struct{}),
		balancing: balance.LeastConnectionsConfig{MaxJitter: jitter, Prober: prober, Classic: config.classic},
		watch:     config.watch,
	}
	if config.noProxy {
		f.options = append(f.options, evenkeel.WithNoProxy())
	}
	if config.tls == nil {
		f.options = append(f.options, evenkeel.WithPlaintext())
	} else {
		f.options = append(f.options, evenkeel.WithTLS(config.tls))
	}
	return f, nil
}

// add starts one more client.
func (f *fleet) add() error {
	client := len(f.clients) + 1
	report := evenkeel.WithEvents(func(e evenkeel.Event) {
		select {
		case f.events <- fleetEvent{Event: e, client: client}:
		case <-f.quit:
		}
	})
	balancing := f.balancing
	if f.watch != nil {
		balancing.Prober = f.watch(f.prober)
	}
	conn, err := evenkeel.New(f.text, append(slices.Clone(f.options), report, evenkeel.WithLeastConnections(balancing))...)
	if err != nil {
		return err
	}
	f.clients = append(f.clients, conn)
	return nil
}

// connections counts the sessions that stand now, by server.
func (f *fleet) connections() map[string]int {
	counts := make(map[string]int)
	for _, conn := range f.clients {
		if server := conn.Server(); server.Host != "" {
			counts[server.Addr()]++
		}
	}
	return counts
}

// failure finds a client that has no session now, and why; nil when all have one.
func (f *fleet) failure() (client int, err error) {
	for i, conn := range f.clients {
		status := conn.Status()
		switch {
		case status.State == evenkeel.StateReady:
		case status.Err != nil:
			return i + 1, status.Err
		case err == nil:
			client, err = i+1, errStillConnecting
		}
	}
	return client, err
}

var errStillConnecting = errors.New("still connecting")

// close ends all clients, at once, and what they share.
func (f *fleet) close() error {
	close(f.quit)
	errs := make([]error, len(f.clients)+1)
	var all sync.WaitGroup
	for i, conn := range f.clients {
		all.Go(func() { errs[i] = conn.Close() })
	}
	all.Wait()
	errs[len(f.clients)] = f.prober.Close()
	return errors.Join(errs...)
}

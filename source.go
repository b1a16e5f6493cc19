// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"fmt"
	"io"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
)

// defaultMaxJitter is the bound of the random wait before a reconnect that makes no probe.
const defaultMaxJitter = 250 * time.Millisecond

// Resolver returns what finds the servers of a connection string: its hosts as they are written, or the SRV records of
// its name. Dial and New use the same. A host that is written twice counts once.
func Resolver(cs *connstring.ConnString) (discover.Resolver, error) {
	if cs.SRV {
		return discover.SRV(discover.SRVConfig{Name: cs.Hosts[0].Name, NameServer: cs.SRVNameServer})
	}
	endpoints := make([]discover.Endpoint, 0, len(cs.Hosts))
	seen := make(map[connstring.Host]bool, len(cs.Hosts))
	for _, h := range cs.Hosts {
		if !seen[h] {
			seen[h] = true
			endpoints = append(endpoints, discover.Endpoint{Host: h.Name, Port: h.Port})
		}
	}
	return discover.Static(endpoints...), nil
}

// source is the resolver of a Conn.
func (c *config) source(cs *connstring.ConnString) (discover.Resolver, error) {
	if c.resolver != nil {
		return c.resolver, nil
	}
	if cs.SRV && c.targetsInDomain {
		return discover.SRV(discover.SRVConfig{Name: cs.Hosts[0].Name, NameServer: cs.SRVNameServer, TargetsInDomain: true})
	}
	return Resolver(cs)
}

// selection is the strategy of a Conn, and what has to be closed with it. The prober of least-connections is set
// afterwards.
func (c *config) selection(cs *connstring.ConnString) (balance.Strategy, []func() error, error) {
	if c.strategy != nil {
		return c.strategy, nil, nil
	}
	switch balancer := cs.EffectiveLoadBalancer(); balancer {
	case connstring.RoundRobin:
		return balance.NewRoundRobin(), nil, nil
	case connstring.Random:
		return balance.NewRandom(), nil, nil
	case connstring.LeastConnections:
		return c.fewest(cs)
	default:
		return nil, nil, fmt.Errorf("unknown load balancer %q", balancer)
	}
}

// fewest is the least-connections strategy, with a prober of its own where none was given.
func (c *config) fewest(cs *connstring.ConnString) (balance.Strategy, []func() error, error) {
	lc := &c.leastConnections
	var release []func() error
	if lc.Prober == nil {
		prober, err := balance.NewProber(balance.ProberConfig{TLS: c.tlsConfig(cs), Plaintext: c.plaintext, NoProxy: c.noProxy})
		if err != nil {
			return nil, nil, err
		}
		lc.Prober, release = prober, []func() error{prober.Close}
	}
	strategy, err := balance.NewLeastConnections(*lc)
	if closer, ok := strategy.(io.Closer); ok {
		release = append(release, closer.Close)
	}
	return strategy, release, err
}

// maxJitter bounds the wait of a reconnect that makes no probe.
func (c *config) maxJitter() time.Duration {
	if c.leastConnections.MaxJitter == 0 {
		return defaultMaxJitter
	}
	return c.leastConnections.MaxJitter // negative means none
}

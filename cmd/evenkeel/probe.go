// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
)

const (
	// probeLimit is how long a server has to answer, as in a client.
	probeLimit = 2 * time.Second
	// maxProbes bounds how many servers are asked at a time.
	maxProbes = 64

	shortestInterval = 100 * time.Millisecond
)

const probeHelp = `
Ask every server of a connection string for its number of connections, as clients do before they pick one, and
show what each one answers: the count (connected clients plus reservations), how long the answer took on an open
connection, the HTTP version, and the certificate; or why there is no answer. Nothing is reserved. Each server is also
asked, once and without credentials, whether it serves what a session needs; those that do not are named with the
reason. CAPACITY is how many clients a server says it takes in proportion to others; a server that says it is draining
takes no new ones.

PICK is how likely a client that connects now ends on the server, by the loadBalancer of the connection string, as far
as the counts tell. A server to which no connection could be made, that is draining or that does not serve what a session
needs has none, and when no other server gave its count there are none at all. A narrow terminal is not shown the columns
that matter least.

` + targetHelp + `

The exit status is 1 when no server that takes clients gave its count. With --watch the servers are looked up and asked again until the
command is interrupted; the exit status is then that of the last whole round, and 1 when there was none.

With --json, an object a line for each server; fields without a value are left out:

  time         when the round ended, RFC 3339 in UTC
  round        counts the rounds of --watch, from 1
  endpoint     the server, as "host:port"
  priority     lower numbers are used first
  weight       its part of the clients beside others of its priority, by its
               SRV record
  address      the address that was connected to
  connections  the count
  capacity     how many clients it takes in proportion to others, as it says;
               counts in the place of the weights where all servers say it
  draining     true when it says that it takes no new clients
  latency_ms   how long the answer took on an open connection
  http         the version, such as "HTTP/2.0"
  certificate  subject, issuer, self_signed, not_after, days_left
  error        why there is no count
  incompatible why the server does not serve what a session needs
  pick_chance  how likely it is picked, from 0 to 1`

const probeExamples = `  evenkeel probe chronicle+srv://prod.example
  evenkeel probe 'chronicle://localhost:35000/?skipTlsValidation=true'
  evenkeel probe --watch --interval 5s --ca roots.pem chronicle://node-1,node-2`

func newProbe(c *console) *cobra.Command {
	var from target
	p := &probing{console: c}
	cmd := &cobra.Command{
		Use:     "probe [STRING]",
		Short:   "Ask the servers how busy they are, and tell which one is picked",
		Long:    paragraphs(probeHelp),
		Example: probeExamples,
		Args:    oneString,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check(cmd.Flags().Changed("interval")); err != nil {
				return err
			}
			cs, err := from.connString(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			return p.run(cmd.Context(), &from, cs)
		},
	}
	from.addFile(cmd)
	from.addTLS(cmd)
	cmd.Flags().BoolVar(&p.watch, "watch", false, "ask again and again")
	cmd.Flags().DurationVar(&p.interval, "interval", time.Second,
		fmt.Sprintf("the time between two rounds of --watch, at least %v", shortestInterval))
	cmd.Flags().BoolVar(&p.asJSON, "json", false, "print JSON, an object a line")
	return cmd
}

// probing is a run of the command.
type probing struct {
	console  *console
	watch    bool
	interval time.Duration
	asJSON   bool

	balancer string
	resolver discover.Resolver
	prober   balance.Prober
	fitting  *fitting
	adviser  adviser
	screen   *live    // nil where nothing can be drawn anew
	shown    []string // what the round drew there
	rounds   int
}

// check finds what cannot be meant. withInterval says that --interval was given.
func (p *probing) check(withInterval bool) error {
	if withInterval && !p.watch {
		return usage("--interval is for --watch: give both, or neither")
	}
	if p.interval < shortestInterval {
		return usage("--interval must be %v or more", shortestInterval)
	}
	return nil
}

func (p *probing) run(ctx context.Context, from *target, cs *connstring.ConnString) (err error) {
	p.balancer, p.adviser = cs.EffectiveLoadBalancer(), from.adviser(cs)
	resolver, err := evenkeel.Resolver(cs)
	if err != nil {
		return err
	}
	p.resolver = discover.LastGood(resolver)
	prober, err := from.prober(p.console, cs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prober.Close()) }()
	p.prober = prober
	if p.fitting, err = from.fitting(p.console, cs); err != nil {
		return err
	}
	if p.watch && !p.asJSON && p.console.outScreen.live() {
		p.screen = &live{w: p.console.out, size: p.console.outScreen.size}
		defer p.screen.end()
	}
	if !p.watch {
		return p.round(ctx)
	}
	return p.repeat(ctx)
}

// repeat does rounds until ctx is done, and returns how the last whole one ended, or the first one that was cut short.
func (p *probing) repeat(ctx context.Context) error {
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	var last error
	for first := true; ; first = false {
		err := p.round(ctx)
		if ctx.Err() != nil {
			if first {
				return err
			}
			return last
		}
		if last = err; err != nil {
			p.say(err)
		}
		if p.console.out.failure != nil {
			return nil // run says it
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return last
		}
	}
}

// say tells of a round that failed while others follow.
func (p *probing) say(err error) {
	if p.screen != nil {
		lines := p.shown
		if len(lines) > 0 {
			lines = append(lines[:len(lines):len(lines)], "")
		}
		p.draw(append(lines, wrap(sentence(err), p.console.outScreen.wrapWidth(), 0)...))
		return
	}
	p.console.complain("warning: %s", sentence(err))
}

// round looks the servers up, asks them and shows what they say.
func (p *probing) round(ctx context.Context) error {
	p.shown = nil
	endpoints, err := lookUp(ctx, p.console, p.resolver)
	if err != nil {
		return err
	}
	seen := askAll(ctx, p.prober, endpoints)
	if err := p.fitting.ask(ctx, seen); err != nil {
		return err
	}
	if err := interrupted(ctx); err != nil {
		return err
	}
	p.rounds++
	r := round{seen: p.fitting.candidates(seen), at: time.Now()}
	r.chance = chances(p.balancer, r.seen)
	p.show(r)
	if len(r.chance) == 0 {
		return p.noneUsable(r.seen)
	}
	return nil
}

// askAll asks all endpoints at once and returns their answers in the same order.
func askAll(ctx context.Context, prober balance.Prober, endpoints []discover.Endpoint) []balance.Observation {
	seen := make([]balance.Observation, len(endpoints))
	slots := make(chan struct{}, maxProbes)
	var all sync.WaitGroup
	for i, e := range endpoints {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			limited, cancel := context.WithTimeout(ctx, probeLimit)
			defer cancel()
			seen[i].Endpoint = e
			seen[i].Count, seen[i].Err = prober.Count(limited, e)
		})
	}
	all.Wait()
	return seen
}

// noneUsable says why clients get no session, of the server that says most about it, and what to do.
func (p *probing) noneUsable(seen []candidate) error {
	all := func(is func(candidate) bool) bool {
		return !slices.ContainsFunc(seen, func(c candidate) bool { return !is(c) })
	}
	telling := seen[0]
	for _, c := range seen {
		if c.open() {
			telling = c
			break
		}
	}
	addr, many := telling.Endpoint.Addr(), plural(len(seen), "server")
	switch {
	case all(candidate.open) && len(seen) == 1:
		return fmt.Errorf("%s gave no count: %s", addr, p.why(telling))
	case all(candidate.open):
		return fmt.Errorf("none of %s gave a count; %s: %s", many, addr, p.why(telling))
	case len(seen) == 1:
		return fmt.Errorf("clients get no session: %s %s", addr, p.why(telling))
	case all(candidate.draining):
		return fmt.Errorf("clients get no session: all of %s are draining", many)
	case all(func(c candidate) bool { return c.misfit != nil }):
		return fmt.Errorf("clients get no session: none of %s serves what they need", many)
	default:
		return fmt.Errorf("clients get no session at any of %s; %s: %s", many, addr, p.why(telling))
	}
}

// why says why a server is of no use, and what to do.
func (p *probing) why(c candidate) string {
	switch {
	case c.misfit != nil:
		return "does not serve what they need"
	case c.draining():
		return "is draining"
	default:
		return whyNot(c.Err) + p.adviser.probeAdvice(c.Observation)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
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
connection, the HTTP version, and the certificate; or why there is no answer. Nothing is reserved.

PICK is how likely a client that connects now picks the server, by the loadBalancer of the connection string.

` + targetHelp + `

The exit status is 1 when no server answered. With --watch the servers are looked up and asked again until the command
is interrupted; the exit status is then that of the last round.

With --json, an object a line for each server:

  time         when it was asked, RFC 3339 in UTC
  round        counts the rounds of --watch, from 1
  endpoint     the server, as "host:port"
  priority     lower numbers are used first
  weight       its capacity beside others of its priority
  address      the address that answered
  connections  the count; null without an answer
  latency_ms   how long the answer took on an open connection
  http         the version, such as "HTTP/2.0"
  certificate  subject, issuer, self_signed, not_after, days_left; null
               over plaintext and without an answer
  error        why there is no answer
  pick_chance  how likely it is picked, from 0 to 1`

const probeExamples = `  evenkeel probe chronicle+srv://prod.example
  evenkeel probe 'chronicle://localhost:35000/?skipTlsValidation=true'
  evenkeel probe --watch --interval 5s --ca roots.pem chronicle://node-1,node-2`

func newProbe(c *console) *cobra.Command {
	var from target
	p := &probing{console: c}
	cmd := &cobra.Command{
		Use:     "probe [STRING]",
		Short:   "Ask the servers how busy they are, and tell which one would be picked",
		Long:    paragraphs(probeHelp),
		Example: probeExamples,
		Args:    oneString,
		RunE: func(cmd *cobra.Command, args []string) error {
			cs, err := from.connString(c, args)
			if err != nil {
				return err
			}
			if p.interval < shortestInterval {
				return usage("--interval must be %v or more", shortestInterval)
			}
			return p.run(cmd.Context(), &from, cs)
		},
	}
	from.addFile(cmd)
	from.addTLS(cmd)
	cmd.Flags().BoolVar(&p.watch, "watch", false, "ask again and again")
	cmd.Flags().DurationVar(&p.interval, "interval", time.Second, "the time between two rounds of --watch")
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
	screen   *live // nil where nothing can be drawn anew
	rounds   int
}

func (p *probing) run(ctx context.Context, from *target, cs *connstring.ConnString) (err error) {
	p.balancer = cs.EffectiveLoadBalancer()
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
	if p.watch && !p.asJSON && p.console.outScreen.live() {
		p.screen = &live{w: p.console.out, size: p.console.outScreen.size}
		defer p.screen.end()
	}
	if !p.watch {
		return p.round(ctx)
	}
	return p.repeat(ctx)
}

// repeat does rounds until ctx is done, and returns how the last whole one ended.
func (p *probing) repeat(ctx context.Context) error {
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	var last error
	for {
		err := p.round(ctx)
		if ctx.Err() != nil {
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
		p.screen.draw([]string{p.title(), "", sentence(err)})
		return
	}
	p.console.complain("warning: %s", sentence(err))
}

// round looks the servers up, asks them and shows what they say.
func (p *probing) round(ctx context.Context) error {
	endpoints, err := lookUp(ctx, p.console, p.resolver)
	if err != nil {
		return err
	}
	seen := askAll(ctx, p.prober, endpoints)
	if err := interrupted(ctx); err != nil {
		return err
	}
	p.rounds++
	chance := chances(p.balancer, seen)
	p.show(seen, chance)
	for _, o := range seen {
		if o.Err == nil {
			return nil
		}
	}
	return noneAnswered(seen)
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

// noneAnswered says what the first server said, and what to do.
func noneAnswered(seen []balance.Observation) error {
	first := seen[0]
	advice := trustAdvice(first.Err)
	if advice == "" {
		advice = "; check that servers run there and that the ports can be reached"
	}
	return fmt.Errorf("none of %s answered; %s: %s%s", plural(len(seen), "server"), first.Endpoint.Addr(), whyNot(first.Err), advice)
}

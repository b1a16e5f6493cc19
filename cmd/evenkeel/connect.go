// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/evenkeel-go/evenkeel/connstring"
)

const (
	maxClients = 10_000
	// defaultJitter is that of the library.
	defaultJitter = 250 * time.Millisecond
	longestJitter = time.Minute
	// settled is how long nothing may have changed before a spread is worth a table.
	settled = 500 * time.Millisecond
	// frame is the time between two drawings on a terminal, and calmFrame between two lines of progress elsewhere.
	frame     = 100 * time.Millisecond
	calmFrame = time.Second
	// fewClients are so few that each event gets a line.
	fewClients = 12
)

const connectHelp = `
Hold sessions with the servers of a connection string, as that many clients would, and show what becomes of them:
each change while the clients are few, a line of progress while they are many, and how they are spread over the
servers. The clients share one prober.

` + targetHelp + `

The command ends after --for, or when it is interrupted, and then closes the sessions. The exit status is 0 when every
client had a session at the end, else 1.

With --json, an object a line for each event; fields without a value are left
out:

  time           when it happened, RFC 3339 in UTC
  client         the number of the client, from 1
  event          resolving, resolved, selected, candidate failed,
                 compatibility unknown, connected, leaving, lost,
                 backing off, client certificate, closed, panicked
  endpoint       the server, as "host:port"
  generation     how many sessions the client has had
  counts         what the servers had answered when the client picked one,
                 an object of numbers by endpoint
  endpoints      what a lookup found, a list
  error          the cause
  wait_ms        how long a backoff is
  since_lost_ms  how long the client was without a session
  dropped        events lost before this one: the output was too slow

And as the last line, an object on the end:

  summary          true
  clients          how many were started
  ready            how many had a session
  connections      their number by endpoint, 0 included
  recovery_ms      times without a session: count, median, p99, max; not
                   there when no session was lost and replaced
  lost             how many sessions were lost
  failed_attempts  how often a client found no server and backed off
  elapsed_ms       how long the sessions were held
  causes           what went wrong at the servers, a list of objects, the most
                   frequent first: endpoint, cause, count, first, last`

const connectExamples = `  evenkeel connect chronicle+srv://prod.example
  evenkeel connect --clients 60 --for 1m --ca ca.pem chronicle://node-1,node-2
  evenkeel connect --clients 60 --for 0 --json --file cluster.txt`

func newConnect(c *console) *cobra.Command {
	var from target
	h := &holding{console: c}
	cmd := &cobra.Command{
		Use:     "connect [STRING]",
		Short:   "Hold sessions and show how they spread and move",
		Long:    paragraphs(connectHelp),
		Example: connectExamples,
		Args:    oneString,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := h.check(); err != nil {
				return err
			}
			cs, err := from.connString(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			return h.run(cmd.Context(), &from, cs)
		},
	}
	from.addFile(cmd)
	from.addTLS(cmd)
	cmd.Flags().IntVar(&h.clients, "clients", 1, fmt.Sprintf("the number of clients, 1 to %d", maxClients))
	cmd.Flags().DurationVar(&h.length, "for", 30*time.Second, "how long to hold the sessions; 0 until interrupted")
	cmd.Flags().DurationVar(&h.jitter, "jitter", defaultJitter,
		"the most that a client waits at random before it picks a server, up to 1m; 0 for no wait")
	cmd.Flags().BoolVar(&h.asJSON, "json", false, "print JSON, an object a line")
	return cmd
}

// holding is a run of the command.
type holding struct {
	console *console
	clients int
	length  time.Duration
	jitter  time.Duration
	asJSON  bool

	adviser adviser
	fleet   *fleet
	tally   tally
	view    connectView
	began   time.Time
}

func (h *holding) check() error {
	if err := inRange("clients", h.clients, 1, maxClients); err != nil {
		return err
	}
	if h.length < 0 {
		return usage("--for must not be negative")
	}
	if h.jitter < 0 || h.jitter > longestJitter {
		return usage("--jitter must lie between 0 and %v", longestJitter)
	}
	return nil
}

func (h *holding) run(ctx context.Context, from *target, cs *connstring.ConnString) (err error) {
	config, err := from.tlsConfig(h.console, cs)
	if err != nil {
		return err
	}
	h.adviser = from.adviser(cs)
	if from.plaintext {
		config = nil
	}
	h.fleet, err = newFleet(fleetConfig{
		connString: withoutCertificate(cs), tls: config, noProxy: from.noProxy, jitter: h.jitter,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.fleet.close()) }()
	h.began = time.Now()
	for range h.clients {
		if err := h.fleet.add(); err != nil {
			return err
		}
	}
	h.view = newConnectView(h)
	h.watch(ctx)
	return h.finish(interrupted(ctx))
}

// watch shows what happens until the time is up.
func (h *holding) watch(ctx context.Context) {
	if h.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.length)
		defer cancel()
	}
	frames := time.NewTicker(frame)
	defer frames.Stop()
	for {
		select {
		case e := <-h.fleet.events:
			since, recovered := h.tally.apply(e)
			h.view.event(e, since, recovered)
		case now := <-frames.C:
			h.view.frame(now)
		case <-ctx.Done():
			h.drain()
			return
		}
		if h.console.out.failure != nil {
			return // run says it
		}
	}
}

// drain takes in the events that have arrived, so that the summary is up to date.
func (h *holding) drain() {
	for {
		select {
		case e := <-h.fleet.events:
			since, recovered := h.tally.apply(e)
			h.view.event(e, since, recovered)
		default:
			return
		}
	}
}

// finish sums up, while the sessions still stand. ended is why they stood no longer, where that was not their time.
func (h *holding) finish(ended error) error {
	connections := h.fleet.connections()
	ready := 0
	for _, n := range connections {
		ready += n
	}
	for _, server := range h.tally.servers {
		connections[server] += 0 // one without sessions is listed too
	}
	h.view.summary(connectSummary{
		Summary: true, Clients: h.clients, Ready: ready, Connections: connections,
		Recovery: summarise(h.tally.recoveries), Lost: h.tally.lost, Failed: h.tally.failed,
		Elapsed: milliseconds(time.Since(h.began)), Causes: h.tally.troubles.list(),
	})
	client, cause := h.fleet.failure()
	if ready == h.clients || cause == nil {
		return nil // also when the last one became ready just now
	}
	switch {
	case !errors.Is(cause, errStillConnecting):
		cause = h.adviser.explain(h.tally.troubles.behind(cause))
	case ended != nil:
		cause = ended
	default:
		cause = fmt.Errorf("%w; give it more time with --for", cause)
	}
	if h.clients == 1 {
		return fmt.Errorf("the client had no session at the end: %w", cause)
	}
	return fmt.Errorf("%d of %d clients had no session at the end: client %d: %w", h.clients-ready, h.clients, client, cause)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/evenkeel-go/evenkeel/discover"
)

// pollWaits are the flags on how often to look.
type pollWaits struct {
	interval, minInterval, maxInterval time.Duration
}

func (w *pollWaits) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&w.interval, "interval", discover.DefaultInterval, "the time between two lookups of --watch")
	cmd.Flags().DurationVar(&w.minInterval, "min-interval", discover.DefaultMinInterval, "the shortest first wait of --watch, at most --interval")
	cmd.Flags().DurationVar(&w.maxInterval, "max-interval", discover.DefaultMaxInterval, "the longest wait of --watch after failures, at least --interval")
}

// config returns the waits that were given, and a default for each that was not.
func (w *pollWaits) config(flags *pflag.FlagSet, watch bool) (discover.PollerConfig, error) {
	var config discover.PollerConfig
	for _, wait := range []struct {
		flag  string
		given time.Duration
		set   *time.Duration
	}{
		{"interval", w.interval, &config.Interval},
		{"min-interval", w.minInterval, &config.MinInterval},
		{"max-interval", w.maxInterval, &config.MaxInterval},
	} {
		if !flags.Changed(wait.flag) {
			continue
		}
		if !watch {
			return config, usage("--%s is for --watch: give both, or neither", wait.flag)
		}
		if wait.given < shortestInterval {
			return config, usage("--%s must be %v or more", wait.flag, shortestInterval)
		}
		*wait.set = wait.given
	}
	return config, w.contradiction(config)
}

// contradiction holds what was given against each other and against the default interval.
func (w *pollWaits) contradiction(config discover.PollerConfig) error {
	switch {
	case config.MinInterval > w.interval:
		return usage("--min-interval %v must not be longer than --interval %v", w.minInterval, w.interval)
	case config.MaxInterval > 0 && config.MaxInterval < w.interval:
		return usage("--max-interval %v must not be shorter than --interval %v", w.maxInterval, w.interval)
	default:
		return nil
	}
}

// watchNames looks until ctx is done or nobody takes what it prints.
func watchNames(ctx context.Context, c *console, config discover.PollerConfig, asked asked, asJSON bool) error {
	w := &watch{console: c, asJSON: asJSON, elsewhere: asked.elsewhere, palette: newPalette(c.outScreen.colour)}
	results := make(chan discover.PollResult)
	config.Resolver = asked.resolver
	config.OnResult = func(result discover.PollResult) {
		select {
		case results <- result:
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	poller, err := discover.NewPoller(config)
	if err != nil {
		cancel()
		return err
	}
	defer poller.Close()
	defer cancel() // before Close, which waits for OnResult
	for {
		select {
		case <-ctx.Done():
			return nil
		case result := <-results:
			w.show(result)
		}
		if c.out.failure != nil {
			return nil // run says it
		}
	}
}

// watch shows what a poller tells.
type watch struct {
	console   *console
	asJSON    bool
	elsewhere string
	palette   palette

	servers []discover.Endpoint // the last set
}

// The events of resolve --watch.
const (
	eventResolved = "resolved"
	eventFailed   = "failed"
	eventAdded    = "added"
	eventRemoved  = "removed"
	eventChanged  = "changed"
)

// watchEvent is an object of resolve --watch --json.
type watchEvent struct {
	Time      time.Time         `json:"time"`
	Event     string            `json:"event"`
	Took      *float64          `json:"took_ms,omitempty"`
	Endpoints *int              `json:"endpoints,omitempty"`
	Class     string            `json:"class,omitempty"`
	Error     string            `json:"error,omitempty"`
	Failures  int               `json:"failures,omitempty"`
	Next      *time.Time        `json:"next,omitempty"`
	Server    *resolvedEndpoint `json:"server,omitempty"`
}

// change is one server that is not as it was.
type change struct {
	event  string
	server discover.Endpoint
}

func (w *watch) show(result discover.PollResult) {
	changes := changesBetween(w.servers, result.Endpoints)
	w.servers = result.Endpoints
	if w.asJSON {
		w.showJSON(result, changes)
		return
	}
	at := result.At.UTC().Format(timeLayout)
	w.console.printf("%s  %s", at, w.outcome(result))
	for _, c := range changes {
		w.console.printf("%s    %s", at, w.line(c))
	}
}

// timeLayout is RFC 3339 with a fixed number of digits, so that lines stand below each other.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// outcome is the line of a lookup.
func (w *watch) outcome(result discover.PollResult) string {
	took, servers := shortDuration(result.Took), plural(len(result.Endpoints), "endpoint")
	switch {
	case result.Err == nil:
		return w.palette.good.Render(eventResolved) + "  " + servers + " in " + took
	case result.Failures == 0: // found all the same
		return w.palette.alert.Render(eventResolved) + "  " + servers + " in " + took + "; " + result.Class + ": " + sentence(result.Err)
	}
	line := w.palette.bad.Render(eventFailed) + "    " + result.Class + " in " + took
	if len(result.Endpoints) > 0 {
		line += "; " + servers + " stay"
	}
	return line + ": " + sentence(withAdviceAt(result.Err, w.elsewhere))
}

// line is the line of a change.
func (w *watch) line(c change) string {
	sign := map[string]string{
		eventAdded: w.palette.good.Render("+"), eventRemoved: w.palette.bad.Render("-"), eventChanged: w.palette.alert.Render("~"),
	}[c.event]
	line := sign + " " + c.server.Addr()
	if c.server.Priority != 0 || c.server.Weight != 0 {
		line += "  priority " + number(c.server.Priority) + ", weight " + number(c.server.Weight)
	}
	if known := knownAddresses(c.server); known != c.server.Addr() {
		line += "  " + known
	}
	return line
}

func (w *watch) showJSON(result discover.PollResult, changes []change) {
	took, endpoints, next := milliseconds(result.Took), len(result.Endpoints), result.Next.UTC()
	lookup := watchEvent{
		Time: result.At.UTC(), Event: eventResolved, Took: &took, Endpoints: &endpoints,
		Class: result.Class, Failures: result.Failures, Next: &next,
	}
	if result.Failures > 0 {
		lookup.Event = eventFailed
	}
	if result.Err != nil {
		lookup.Error = sentence(result.Err)
	}
	w.console.object(lookup)
	for _, c := range changes {
		server := asResolved(c.server)
		w.console.object(watchEvent{Time: result.At.UTC(), Event: c.event, Server: &server})
	}
}

// changesBetween lists what differs between two sets: first what has gone, then what has come, then what has another
// priority or weight. A server whose addresses have changed has gone and come.
func changesBetween(before, after []discover.Endpoint) []change {
	old, now := byIdentity(before), byIdentity(after)
	var removed, added, changed []change
	for _, e := range before {
		if _, stays := now[identity(e)]; !stays {
			removed = append(removed, change{eventRemoved, e})
		}
	}
	for _, e := range after {
		was, known := old[identity(e)]
		switch {
		case !known:
			added = append(added, change{eventAdded, e})
		case was.Priority != e.Priority || was.Weight != e.Weight:
			changed = append(changed, change{eventChanged, e})
		}
	}
	return slices.Concat(removed, added, changed)
}

func byIdentity(endpoints []discover.Endpoint) map[string]discover.Endpoint {
	all := make(map[string]discover.Endpoint, len(endpoints))
	for _, e := range endpoints {
		all[identity(e)] = e
	}
	return all
}

// identity is what makes a server that server.
func identity(e discover.Endpoint) string {
	known := addresses(e)
	slices.Sort(known)
	return e.Addr() + " " + strings.Join(known, " ")
}

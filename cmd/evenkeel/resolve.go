// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evenkeel-go/evenkeel/discover"
)

// lookupLimit ends a lookup that does not end by itself.
const lookupLimit = 10 * time.Second

// resolvedEndpoint is an object of resolve --json.
type resolvedEndpoint struct {
	Endpoint   string   `json:"endpoint"`
	Host       string   `json:"host"`
	Port       uint16   `json:"port"`
	Priority   uint16   `json:"priority"`
	Weight     uint16   `json:"weight"`
	ServerName string   `json:"server_name,omitempty"`
	Addresses  []string `json:"addresses,omitempty"`
}

const resolveHelp = `
List the servers that a connection string leads to, in the order in which clients consider them: the hosts of
chronicle:// as they are written, or the SRV records of a chronicle+srv:// name, looked up now. Targets of plain gRPC
channels are understood as well: dns:///NAME:PORT lists the addresses of the name (port 443 unless said), and
srv:///_SERVICE._PROTO.NAME its SRV records with the addresses of their hosts, of which those without any are left out,
as channels do. A name server between the slashes, as in dns://10.0.0.53/NAME, is the one that is asked.

Clients use servers of a higher priority number only when all of the lower numbers have failed. Weights are capacities:
a server of weight 20 is meant to have twice the clients of one of weight 10; all zero means equal.

` + targetHelp + `

Records that had to be left out are told on standard error. The exit status is 1 when no server was found.

With --watch the name is looked up until the command is interrupted, which is exit status 0: every lookup is told, and
every server that comes or goes. It looks as channels do: after --interval or up to 20 % sooner; the first time after
anything from --min-interval on. Failures in a row double the wait, up to --max-interval, and what was found stays
meanwhile. Until something was found, failed lookups are repeated after 1s, doubling.

With --json, an object a line for each server; fields without a value are left
out:

  endpoint     the server, as "host:port"
  host         its name or address, without brackets
  port         its port
  priority     lower numbers are used first
  weight       its capacity beside others of its priority
  server_name  the name that TLS verifies, where that is not the host
  addresses    a list of "address:port"; not there when the name is looked
               up only when it is dialled

And with --watch, an object a line for each lookup, and then one for each server
that has come, gone or been given another priority or weight:

  time       when it was, RFC 3339 in UTC
  event      resolved, failed, added, removed, changed
  took_ms    how long the lookup took
  endpoints  how many servers there are now
  class      what kind of error it was: no_such_name, no_records,
             server_failed, timeout, partial or _OTHER
  error      its text
  failures   how many lookups in a row have found nothing
  next       when the next lookup is due
  server     what has changed, an object as above`

const resolveExamples = `  evenkeel resolve chronicle+srv://prod.example
  evenkeel resolve 'chronicle+srv://prod.example/?srvNameServer=10.0.0.53'
  evenkeel resolve --json --file /run/secrets/chronicle
  evenkeel resolve dns:///api.prod.svc.cluster.local:8080
  evenkeel resolve --watch --interval 5s dns://10.96.0.10/api.prod.svc`

func newResolve(c *console) *cobra.Command {
	var from target
	var asJSON, watch bool
	var waits pollWaits
	cmd := &cobra.Command{
		Use:     "resolve [STRING]",
		Short:   "List the servers that a connection string or a target leads to",
		Long:    paragraphs(resolveHelp),
		Example: resolveExamples,
		Args:    oneString,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := waits.config(cmd.Flags(), watch)
			if err != nil {
				return err
			}
			text, where, err := from.text(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			asked, err := readAsked(text, where)
			switch {
			case err != nil:
				return err
			case watch && asked.fixed:
				return usage("--watch is for names that are looked up: there is nothing to look up here")
			case watch:
				return watchNames(cmd.Context(), c, config, asked, asJSON)
			default:
				return resolve(cmd.Context(), c, asked, asJSON)
			}
		},
	}
	from.addFile(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an object a line")
	cmd.Flags().BoolVar(&watch, "watch", false, "look again and again, and tell every lookup and every change")
	waits.add(cmd)
	return cmd
}

func resolve(ctx context.Context, c *console, asked asked, asJSON bool) error {
	endpoints, err := lookUpAt(ctx, c, asked.resolver, asked.elsewhere)
	if err != nil {
		return err
	}
	if asJSON {
		for _, e := range endpoints {
			c.object(asResolved(e))
		}
		return nil
	}
	list := &sheet{columns: []column{{"PRIORITY", true}, {"WEIGHT", true}, {"ENDPOINT", false}, {"ADDRESSES", false}}}
	for _, e := range endpoints {
		list.add(plain(number(e.Priority), number(e.Weight), e.Addr(), knownAddresses(e))...)
	}
	for _, line := range list.linesWithin(newPalette(c.outScreen.colour), c.outScreen.wrapWidth()) {
		c.printf("%s", line)
	}
	return nil
}

func asResolved(e discover.Endpoint) resolvedEndpoint {
	return resolvedEndpoint{
		Endpoint: e.Addr(), Host: e.Host, Port: e.Port, Priority: e.Priority, Weight: e.Weight,
		ServerName: e.ServerName, Addresses: addresses(e),
	}
}

// knownAddresses are the addresses of an endpoint for a person to read.
func knownAddresses(e discover.Endpoint) string {
	if known := addresses(e); len(known) > 0 {
		return strings.Join(known, ", ")
	}
	return "looked up when dialled"
}

// lookUp finds the servers of a connection string. What is missing from the answer is told, and the answer used.
func lookUp(ctx context.Context, c *console, resolver discover.Resolver) ([]discover.Endpoint, error) {
	return lookUpAt(ctx, c, resolver, inString)
}

// lookUpAt is lookUp for any target; elsewhere is how its text names another name server.
func lookUpAt(ctx context.Context, c *console, resolver discover.Resolver, elsewhere string) ([]discover.Endpoint, error) {
	limited, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	endpoints, err := resolver.Resolve(limited)
	if ended := interrupted(ctx); ended != nil {
		return nil, ended
	}
	if err != nil && len(endpoints) > 0 {
		c.complain("warning: %s", sentence(err))
		return endpoints, nil
	}
	if err != nil {
		return nil, withAdviceAt(err, elsewhere)
	}
	return endpoints, nil
}

// withAdvice adds what to do to the failures of a lookup that do not say it themselves.
func withAdvice(err error) error { return withAdviceAt(err, inString) }

// withAdviceAt is withAdvice for any target; elsewhere is how its text names another name server.
func withAdviceAt(err error, elsewhere string) error {
	failed, ok := errors.AsType[*discover.LookupError](err)
	if !ok {
		return err
	}
	switch {
	case errors.Is(failed, discover.ErrServerFailed) && failed.Code == "SERVFAIL":
		return fmt.Errorf("%w; see that server's log, or ask another one with %s", err, elsewhere)
	case errors.Is(failed, discover.ErrTimeout) && failed.Server == "":
		return fmt.Errorf("%w; check the machine's name servers, or name one with %s", err, elsewhere)
	default:
		return err
	}
}

// addresses are the known addresses of an endpoint; those of a literal address are itself.
func addresses(e discover.Endpoint) []string {
	known := make([]string, 0, len(e.Addrs)+1)
	for _, addr := range e.Addrs {
		known = append(known, addr.String())
	}
	if literal, err := netip.ParseAddr(e.Host); err == nil && len(known) == 0 {
		known = append(known, netip.AddrPortFrom(literal, e.Port).String())
	}
	return known
}

func number[N uint16 | int](n N) string { return strconv.Itoa(int(n)) }

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

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/discover"
)

// lookupLimit ends a lookup that does not end by itself.
const lookupLimit = 10 * time.Second

// resolvedEndpoint is an object of resolve --json.
type resolvedEndpoint struct {
	Endpoint  string   `json:"endpoint"`
	Host      string   `json:"host"`
	Port      uint16   `json:"port"`
	Priority  uint16   `json:"priority"`
	Weight    uint16   `json:"weight"`
	Addresses []string `json:"addresses,omitempty"`
}

const resolveHelp = `
List the servers that a connection string leads to, in the order in which clients consider them: the hosts of
chronicle:// as they are written, or the SRV records of a chronicle+srv:// name, looked up now.

Clients use servers of a higher priority number only when all of the lower numbers have failed. Weights are capacities:
a server of weight 20 is meant to have twice the clients of one of weight 10; all zero means equal.

` + targetHelp + `

Records that had to be left out are told on standard error. The exit status is 1 when no server was found.

With --json, an object a line for each server; fields without a value are left
out:

  endpoint   the server, as "host:port"
  host       its name or address, without brackets
  port       its port
  priority   lower numbers are used first
  weight     its capacity beside others of its priority
  addresses  a list of "address:port"; not there when the name is looked
             up only when it is dialled`

const resolveExamples = `  evenkeel resolve chronicle+srv://prod.example
  evenkeel resolve 'chronicle+srv://prod.example/?srvNameServer=10.0.0.53'
  evenkeel resolve --json --file /run/secrets/chronicle`

func newResolve(c *console) *cobra.Command {
	var from target
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "resolve [STRING]",
		Short:   "List the servers that a connection string leads to",
		Long:    paragraphs(resolveHelp),
		Example: resolveExamples,
		Args:    oneString,
		RunE: func(cmd *cobra.Command, args []string) error {
			cs, err := from.connString(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			return resolve(cmd.Context(), c, cs, asJSON)
		},
	}
	from.addFile(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an object a line")
	return cmd
}

func resolve(ctx context.Context, c *console, cs *connstring.ConnString, asJSON bool) error {
	resolver, err := evenkeel.Resolver(cs)
	if err != nil {
		return err
	}
	endpoints, err := lookUp(ctx, c, resolver)
	if err != nil {
		return err
	}
	if asJSON {
		for _, e := range endpoints {
			c.object(resolvedEndpoint{
				Endpoint: e.Addr(), Host: e.Host, Port: e.Port, Priority: e.Priority, Weight: e.Weight,
				Addresses: addresses(e),
			})
		}
		return nil
	}
	list := &sheet{columns: []column{{"PRIORITY", true}, {"WEIGHT", true}, {"ENDPOINT", false}, {"ADDRESSES", false}}}
	for _, e := range endpoints {
		known := strings.Join(addresses(e), ", ")
		if known == "" {
			known = "looked up when dialled"
		}
		list.add(plain(number(e.Priority), number(e.Weight), e.Addr(), known)...)
	}
	for _, line := range list.linesWithin(newPalette(c.outScreen.colour), c.outScreen.wrapWidth()) {
		c.printf("%s", line)
	}
	return nil
}

// lookUp finds the servers. What is missing from the answer is told, and the answer used.
func lookUp(ctx context.Context, c *console, resolver discover.Resolver) ([]discover.Endpoint, error) {
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
		return nil, withAdvice(err)
	}
	return endpoints, nil
}

// withAdvice adds what to do to the failures of a lookup that do not say it themselves.
func withAdvice(err error) error {
	failed, ok := errors.AsType[*discover.LookupError](err)
	if !ok {
		return err
	}
	switch {
	case errors.Is(failed, discover.ErrServerFailed) && failed.Code == "SERVFAIL":
		return fmt.Errorf("%w; see that server's log, or ask another one with srvNameServer", err)
	case errors.Is(failed, discover.ErrTimeout) && failed.Server == "":
		return fmt.Errorf("%w; check the machine's name servers, or name one with srvNameServer", err)
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

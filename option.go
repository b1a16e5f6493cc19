// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"

	"golang.org/x/oauth2"
	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/certfile"
)

// Option sets what a connection string cannot hold. A later option wins over an earlier one of the same name; one whose
// argument is nil sets the default, and a nil Option does nothing.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// config is what the options make of the defaults.
type config struct {
	events            func(Event)
	logger            *slog.Logger
	strategy          balance.Strategy
	leastConnections  balance.LeastConnectionsConfig
	leastConnsChanged bool
	rebalance         *balance.RebalanceConfig // nil for none
	resolver          discover.Resolver
	tls               *tls.Config
	certificate       *certfile.File // the client's, of the connection string
	plaintext         bool
	noProxy           bool
	targetsInDomain   bool
	dialOptions       []grpc.DialOption
	onReady           func(context.Context, grpc.ClientConnInterface) error
	sessionless       bool
	tokens            oauth2.TokenSource
	tokenCache        string
	stopOn            []error
	info              ClientInfo
	contract          *contract.Contract
	dialer            dialer // replaced in tests that run in memory
}

// WithEvents calls f for every event, in order, on one goroutine of its own. A slow f holds nothing up: 256 events wait
// for it, then the oldest are dropped and the next one says how many. A panic in f is reported to it as an event.
func WithEvents(f func(Event)) Option { return optionFunc(func(c *config) { c.events = f }) }

// WithLogger logs every event to l, at one of four levels: lookups and selections at debug, sessions that begin and the
// end of the Conn at info, losses and failures at warn, panics of callbacks at error. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return optionFunc(func(c *config) { c.logger = l }) }

// WithStrategy picks the server with s. It belongs to this Conn alone, and contradicts a loadBalancer in the connection
// string. Close does not close it. A panic in it fails the attempt.
func WithStrategy(s balance.Strategy) Option { return optionFunc(func(c *config) { c.strategy = s }) }

// WithLeastConnections sets how the built-in least-connections strategy works where the connection string leads to it:
// a prober that several clients share, another jitter. A Prober given here is not closed by Close. The MaxJitter also
// bounds the random wait of a reconnect for which no probe is made, whatever the strategy.
func WithLeastConnections(lc balance.LeastConnectionsConfig) Option {
	return optionFunc(func(c *config) { c.leastConnections, c.leastConnsChanged = lc, true })
}

// WithRebalance has the Conn look now and then whether its server has more clients than the others, and move when it has,
// so that a fleet is even again after servers were added, restarted or came back. Without it a client stays where it is for
// as long as its session lasts.
//
// Turn it on for clients that stay connected for hours on servers that come and go, and whose calls are short or can be
// begun anew. Leave it off where sessions are short, since those even out by themselves; where a move is dear, such as with
// streams that take long to get going again; and where the load of a server has little to do with its number of clients.
// It works best when all clients of a fleet have it: those that have not stay, and with them what is too much.
//
// A move is make-before-break: the new session is ready before the old one is left, and new calls go to it. EventLeaving
// says so, with ErrRebalanced, and the context of WithOnReady ends with that cause. Calls and streams that run then have
// 30 s to end; after that they fail with Unavailable and ErrRebalanced as the cause.
//
// Each look asks the own server and 7 others at most, after a lookup, and 31 others before a move. A client moves only
// when all has been quiet for a while, rarely, and only inside the priority of its server; servers for which its own
// penalty runs are left out. See balance.Rebalancer for the rule and docs/balancing.md for what it brings. The zero value
// of the config has the defaults. Its Prober, where there is none, is that of least-connections; with another strategy it
// must be given. Servers do not count a client WithoutSession, which contradicts this.
func WithRebalance(r balance.RebalanceConfig) Option {
	return optionFunc(func(c *config) { c.rebalance = &r })
}

// WithResolver finds the servers with r instead of the hosts of the connection string. When a lookup of r fails on a
// reconnect, its last good answer is used. Close does not close it. A panic in it fails the attempt.
func WithResolver(r discover.Resolver) Option { return optionFunc(func(c *config) { c.resolver = r }) }

// WithTLS sets roots, client certificates and the like for probes and for the connection. The configuration is copied;
// ServerName and NextProtos are set for each server and must be empty. A client certificate here contradicts certificatePath
// in the connection string. What its VerifyPeerCertificate or VerifyConnection refuses is a refused certificate, after which
// Dial tries no more. skipTlsValidation=true in the connection string switches verification off whatever is set here, save
// for those two. Nothing below TLS 1.2 is spoken.
func WithTLS(t *tls.Config) Option { return optionFunc(func(c *config) { c.tls = t }) }

// WithPlaintext speaks neither TLS for probes (which then use HTTP/2 with prior knowledge) nor for the connection. It is
// meant for tests and for meshes that encrypt by themselves, and contradicts WithTLS.
func WithPlaintext() Option { return optionFunc(func(c *config) { c.plaintext = true }) }

// WithDialOptions adds options to the gRPC connection of every session: interceptors, message sizes, statistics. A
// stats.Handler, such as one that traces, gets the errors of calls from grpc-go as the server wrote them, which may echo the
// token or the key that it was sent: take the code of stats.End.Error, and its text nowhere. Interceptors get errors from which
// those are gone. Options that say how to connect (dialers, transport credentials, service configurations with retries) are
// overridden, since those are the session's own.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return optionFunc(func(c *config) {
		for _, o := range opts {
			if o != nil {
				c.dialOptions = append(c.dialOptions, o)
			}
		}
	})
}

// WithOnReady runs f in each new session before calls go to it: programs register their observers there. The session is
// the one that conn is bound to; ctx ends with it. An error of f, or a panic, fails the attempt at that server, and so
// does an f that has not returned when the attempt has lasted for 30 s; Close does not wait for an f that ignores ctx. The
// Conn itself is not ready before f has returned: f must not wait for that, nor for a Reselect.
func WithOnReady(f func(ctx context.Context, conn grpc.ClientConnInterface) error) Option {
	return optionFunc(func(c *config) { c.onReady = f })
}

// WithoutSession leaves out the Connect stream and every random wait: for programs that make a few calls and end. Such a
// client is connected to a server as others are, but the server does not know it: it reserves no place, and is missing in
// the count by which others choose and in the list of connected clients. Only the loss of the connection itself is
// noticed.
func WithoutSession() Option { return optionFunc(func(c *config) { c.sessionless = true }) }

// WithStopOn ends the Conn instead of trying on when an attempt failed in which errors.Is finds one of errs, such as
// ErrUnauthenticated, in the error of any server. It is in StateShutdown then; Dial, WaitReady and calls return the cause.
// Close is still to be called. Without it a Conn made by New tries for ever. Several WithStopOn add up.
func WithStopOn(errs ...error) Option {
	return optionFunc(func(c *config) { c.stopOn = append(c.stopOn, errs...) })
}

// check reports every contradiction between the options and the connection string.
func (c *config) check(cs *connstring.ConnString) error {
	var errs []error
	if c.strategy != nil && cs.LoadBalancer != "" {
		errs = append(errs, errors.New("WithStrategy contradicts loadBalancer in the connection string: use one of them"))
	}
	if c.strategy != nil && c.leastConnsChanged && c.leastConnections.Prober != nil {
		errs = append(errs, errors.New("WithStrategy contradicts the Prober of WithLeastConnections: give it to the strategy"))
	}
	if err := c.checkTrust(cs); err != nil {
		errs = append(errs, err)
	}
	if c.targetsInDomain && c.resolver != nil {
		errs = append(errs, errors.New("WithSRVTargetsInDomain contradicts WithResolver: use one of them"))
	}
	errs = append(errs, c.checkRebalance(cs))
	errs = append(errs, c.checkCredentials(cs))
	return errors.Join(errs...)
}

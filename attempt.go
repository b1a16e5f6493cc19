// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// The limits of an attempt and of its steps. A probe and a reserve have limits of their own (package balance).
const (
	attemptLimit = 30 * time.Second
	resolveLimit = 5 * time.Second
	dialLimit    = 5 * time.Second // with the handshake
	connectLimit = 5 * time.Second // from Connect to the first answered keep-alive
)

var (
	errAttemptTime  = errors.New("attempt took longer than 30 s")
	errForeignPick  = errors.New("the strategy picked a server that is not among the candidates")
	errNoEndpoints  = errors.New("the resolver found no endpoints")
	errResolverTime = errors.New("the lookup took longer than 5 s")
)

// attempter makes generations: resolve, select and reserve, dial, Connect, first keep-alive answered. It tries one
// candidate after the other until one serves.
type attempter struct {
	resolver    discover.Resolver
	strategy    balance.Strategy
	tls         *tls.Config // nil for plaintext
	dialOptions []grpc.DialOption
	maxJitter   time.Duration
	dialer      dialer
	emit        func(Event)
}

// dialer opens a TCP connection to one of an endpoint's addresses.
type dialer interface {
	Dial(ctx context.Context, endpoint discover.Endpoint) (net.Conn, error)
}

// attempt makes a generation, or says why it could not. lost is the Addr of the server whose session was lost just
// before, and empty on a first connect. An error after ctx was done means nothing.
func (a *attempter) attempt(
	life context.Context, penalties *balance.Penalties, lost string, random *rand.Rand,
) (*generation, error) {
	ctx, cancel := context.WithTimeoutCause(life, attemptLimit, errAttemptTime)
	defer cancel()
	endpoints, err := a.resolve(ctx)
	if err != nil {
		return nil, &AttemptError{Err: err}
	}
	round := balance.NewAttempt(endpoints, penalties, lost)
	var failures []*EndpointError
	for mayWait := lost != ""; ; mayWait = false {
		candidates := round.Candidates(time.Now())
		if len(candidates) == 0 {
			return nil, &AttemptError{Failures: failures}
		}
		selection, err := a.selectOne(ctx, candidates)
		if err != nil {
			return nil, &AttemptError{Failures: failures, Err: err}
		}
		// Clients that lost their session together must not return together; probes have waited already.
		if mayWait && !selection.Waited && !sleep(ctx, jitter(a.maxJitter, random)) {
			return nil, &AttemptError{Failures: failures, Err: context.Cause(ctx)}
		}
		gen, failure := a.open(life, ctx, selection)
		if failure == nil {
			return gen, nil
		}
		failures = append(failures, failure)
		if ctx.Err() != nil {
			return nil, &AttemptError{Failures: failures, Err: context.Cause(ctx)}
		}
		round.Failed(selection.Endpoint)
		penalties.Fail(selection.Endpoint.Addr(), time.Now())
		a.emit(Event{Kind: EventCandidateFailed, Endpoint: selection.Endpoint, Err: failure})
	}
}

// resolve finds the endpoints. An incomplete or old answer serves, and an event says so.
func (a *attempter) resolve(ctx context.Context) ([]discover.Endpoint, error) {
	a.emit(Event{Kind: EventResolving})
	ctx, cancel := context.WithTimeoutCause(ctx, resolveLimit, errResolverTime)
	defer cancel()
	endpoints, err := a.resolver.Resolve(ctx)
	if len(endpoints) == 0 {
		if err == nil {
			err = errNoEndpoints
		}
		return nil, err
	}
	a.emit(Event{Kind: EventResolved, Endpoints: endpoints, Err: err})
	return endpoints, nil
}

// selectOne asks the strategy and checks its pick.
func (a *attempter) selectOne(ctx context.Context, candidates []discover.Endpoint) (balance.Selection, error) {
	selection, err := a.strategy.Select(ctx, candidates)
	if err != nil {
		return balance.Selection{}, fmt.Errorf("%s a server: %w", StepSelect, err)
	}
	for _, c := range candidates {
		if c.Addr() == selection.Endpoint.Addr() {
			a.emit(Event{Kind: EventSelected, Endpoint: selection.Endpoint, Observations: selection.Observations})
			return selection, nil
		}
	}
	return balance.Selection{}, errForeignPick
}

// open dials the selected server and begins the session there. life bounds the session, ctx the attempt.
func (a *attempter) open(
	life, ctx context.Context, selection balance.Selection, //nolint:revive // ctx is the shorter of two lives
) (*generation, *EndpointError) {
	endpoint := selection.Endpoint
	transport, endpoint, err := a.dial(ctx, endpoint)
	if err != nil {
		return nil, &EndpointError{Endpoint: endpoint, Step: StepDial, Err: err}
	}
	gen := &generation{
		id: newConnectionID(), endpoint: endpoint, observations: selection.Observations,
		transport: transport, calls: transport.conn,
	}
	gen.ctx, gen.cancel = context.WithCancelCause(life)
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	err = gen.begin(connectRequest(gen.id))
	if err == nil {
		err = gen.awaitFirst(ctx)
	}
	if err != nil {
		gen.close(err)
		return nil, &EndpointError{Endpoint: endpoint, Step: StepConnect, Err: err}
	}
	return gen, nil
}

// dial connects to the endpoint and narrows it to the address that it reached.
func (a *attempter) dial(ctx context.Context, endpoint discover.Endpoint) (*transport, discover.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	raw, err := a.dialer.Dial(ctx, endpoint)
	if err != nil {
		return nil, endpoint, err
	}
	if addr, err := netip.ParseAddrPort(raw.RemoteAddr().String()); err == nil {
		endpoint.Addrs = []netip.AddrPort{addr}
	}
	t, err := newTransport(ctx, raw, endpoint, a.tls, a.dialOptions)
	return t, endpoint, err
}

// jitter is a random wait below limit.
func jitter(limit time.Duration, random *rand.Rand) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(random.Int64N(int64(limit)))
}

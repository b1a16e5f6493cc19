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
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/certerr"
)

// The limits of an attempt and of its steps. A probe and a reserve have limits of their own (package balance).
const (
	attemptLimit = 30 * time.Second
	resolveLimit = 5 * time.Second
	dialLimit    = 5 * time.Second // with the handshake
	connectLimit = 5 * time.Second // from Connect to the first answered keep-alive
	releaseLimit = 2 * time.Second // to give back the place at a server that could not be used
)

var (
	errAttemptTime  = errors.New("attempt took longer than 30 s")
	errForeignPick  = errors.New("the strategy picked a server that is not among the candidates")
	errNoEndpoints  = errors.New("the resolver found no endpoints")
	errResolverTime = errors.New("the lookup took longer than 5 s")
	// errStay: the selection led to the server that the session is on.
	errStay = errors.New("the session is on the server that was selected")
)

// attempter makes generations: resolve, select and reserve, dial, token, compatibility, Connect, first keep-alive
// answered. It tries one candidate after the other until one serves.
type attempter struct {
	resolver    discover.Resolver
	strategy    balance.Strategy
	resolving   chan struct{} // holds a token while the resolver is asked
	selecting   chan struct{} // holds a token while the strategy is asked
	penalties   *balance.Penalties
	tls         *tls.Config // nil for plaintext
	dialOptions []grpc.DialOption
	dialer      dialer
	proxied     func(discover.Endpoint) bool // says that nobody here knows the address of a server; nil means never
	auth        authenticator
	checker     *checker // nil to skip the check
	info        ClientInfo
	maxJitter   time.Duration
	onReady     func(context.Context, grpc.ClientConnInterface) error
	sessionless bool
	emit        func(Event)
	progress    *progress
	background  func(func()) // runs what nobody waits for; it must end with the Conn
}

// dialer opens a TCP connection to one of an endpoint's addresses.
type dialer interface {
	Dial(ctx context.Context, endpoint discover.Endpoint) (net.Conn, error)
}

// errand is what an attempt is for.
type errand struct {
	lost      string // the Addr of the server whose session was lost or is to be left; empty when there is none
	stay      string // the Addr of the server whose session is as good as a new one there
	reconnect bool   // others may have lost their session at the same moment
	hurried   bool   // wait for no jitter
}

// attempt makes a generation, or says why it could not: with errStay, or an *AttemptError. Its error after life was
// done means nothing.
func (a *attempter) attempt(life context.Context, e errand) (gen *generation, err error) {
	a.progress.begin()
	defer func() { a.progress.end(err) }()
	ctx, cancel := context.WithTimeoutCause(life, attemptLimit, errAttemptTime)
	defer cancel()
	if e.hurried || a.sessionless {
		ctx = balance.WithoutJitter(ctx)
	}
	if a.sessionless || e.stay != "" { // it may end in nobody's coming
		ctx = balance.WithoutReservation(ctx)
	}
	endpoints, err := a.resolve(ctx)
	if err != nil {
		return nil, &AttemptError{Err: err}
	}
	round := balance.NewAttempt(endpoints, a.penalties, e.lost)
	var failures []*EndpointError
	for mayWait := e.reconnect && !a.sessionless; ; mayWait = false {
		a.progress.at(StepSelect, discover.Endpoint{})
		candidates := round.Candidates(time.Now())
		if len(candidates) == 0 {
			return nil, &AttemptError{Failures: failures}
		}
		selection, err := a.selectOne(ctx, candidates, e.stay)
		switch {
		case errors.Is(err, errStay):
			return nil, errStay
		case err != nil:
			return nil, &AttemptError{Failures: failures, Err: err}
		case mayWait && !selection.Waited && !a.wait(ctx):
			return nil, &AttemptError{Failures: failures, Err: context.Cause(ctx)}
		}
		gen, failure := a.open(life, ctx, selection)
		if failure == nil {
			return gen, nil
		}
		failures = append(failures, failure)
		a.progress.failed(failure)
		if life.Err() != nil {
			return nil, &AttemptError{Failures: failures, Err: context.Cause(life)}
		}
		round.Failed(selection.Endpoint)
		a.failed(life, a.releaser(), selection, failure) // also when it took the rest of the attempt's time
		if ctx.Err() != nil {
			return nil, &AttemptError{Failures: failures, Err: context.Cause(ctx)}
		}
	}
}

// failed takes down that a pick could not be used, and gives back the place that by has reserved there.
func (a *attempter) failed(life context.Context, by balance.Releaser, selection balance.Selection, failure *EndpointError) {
	a.penalties.Fail(selection.Endpoint.Addr(), time.Now())
	a.emit(Event{Kind: EventCandidateFailed, Endpoint: selection.Endpoint, Err: failure})
	a.giveBack(life, by, selection)
}

// releaser is the strategy, where it can give up what it has reserved; else nil.
func (a *attempter) releaser() balance.Releaser {
	releaser, _ := a.strategy.(balance.Releaser) // nil will do
	return releaser
}

// giveBack gives a reservation up for which nobody comes, where it has an id and who has made it can. Nobody waits for that:
// what is not given up ends by itself.
func (a *attempter) giveBack(life context.Context, by balance.Releaser, selection balance.Selection) {
	if by == nil || selection.Reservation.ID == "" {
		return
	}
	a.background(func() {
		ctx, cancel := context.WithTimeout(life, releaseLimit)
		defer cancel()
		_ = by.Release(ctx, selection.Endpoint, selection.Reservation.ID) // it ends by itself otherwise
	})
}

// resolve finds the endpoints. An incomplete or old answer serves, and an event says so.
func (a *attempter) resolve(ctx context.Context) ([]discover.Endpoint, error) {
	a.emit(Event{Kind: EventResolving})
	endpoints, err := a.lookUp(ctx)
	if len(endpoints) == 0 {
		return nil, err
	}
	a.emit(Event{Kind: EventResolved, Endpoints: endpoints, Err: err})
	return endpoints, nil
}

// lookUp asks the resolver. There are endpoints beside the error of an incomplete or old answer; without any there always
// is an error.
func (a *attempter) lookUp(ctx context.Context) ([]discover.Endpoint, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, resolveLimit, errResolverTime)
	defer cancel()
	endpoints, err := ask(ctx, a.resolving, "resolver", func() ([]discover.Endpoint, error) {
		return a.resolver.Resolve(ctx)
	})
	if len(endpoints) == 0 && err == nil {
		err = errNoEndpoints
	}
	return endpoints, err
}

// selectOne asks the strategy and checks its pick. It returns errStay when the pick is not worth leaving the server with
// the Addr of stay, which then is what was selected.
func (a *attempter) selectOne(ctx context.Context, candidates []discover.Endpoint, stay string) (balance.Selection, error) {
	selection, err := ask(ctx, a.selecting, "strategy", func() (balance.Selection, error) {
		return a.strategy.Select(ctx, candidates)
	})
	if err != nil {
		return balance.Selection{}, fmt.Errorf("%s a server: %w", StepSelect, err)
	}
	if find(candidates, selection.Endpoint.Addr()) == nil {
		return balance.Selection{}, errForeignPick
	}
	a.penalties.Observe(selection.Observations, time.Now())
	if own := find(candidates, stay); own != nil && !worthMoving(selection, stay) {
		selection.Endpoint, err = *own, errStay
	}
	a.emit(Event{Kind: EventSelected, Endpoint: selection.Endpoint, Observations: selection.Observations})
	return selection, err
}

// find returns the endpoint with an Addr, or nil.
func find(endpoints []discover.Endpoint, addr string) *discover.Endpoint {
	for i := range endpoints {
		if endpoints[i].Addr() == addr {
			return &endpoints[i]
		}
	}
	return nil
}

// open dials the selected server and begins the session there. life bounds the session, ctx the attempt.
func (a *attempter) open(
	life, ctx context.Context, selection balance.Selection,
) (*generation, *EndpointError) {
	a.progress.at(StepDial, selection.Endpoint)
	t, endpoint, who, err := a.dial(ctx, selection.Endpoint, nil)
	if err != nil {
		who.close()
		return nil, &EndpointError{Endpoint: endpoint, Step: StepDial, Err: err}
	}
	gen := newGeneration(life, t)
	gen.id, gen.endpoint, gen.observations, gen.who = newConnectionID(), endpoint, selection.Observations, who
	gen.reservation = selection.Reservation.ID
	gen.dial = func(ctx context.Context) (*transport, error) {
		t, _, _, err := a.dial(ctx, endpoint, who)
		return t, err
	}
	if step, err := a.begin(ctx, gen); err != nil {
		gen.close(err)
		return nil, &EndpointError{Endpoint: endpoint, Step: step, Err: err}
	}
	gen.readyAt = time.Now()
	return gen, nil
}

// begin begins the session on a connection that works, and runs the program's own part of it.
func (a *attempter) begin(ctx context.Context, gen *generation) (Step, error) {
	a.progress.at(StepToken, gen.endpoint)
	if err := gen.who.ready(ctx); err != nil {
		return StepToken, err
	}
	a.progress.at(StepCompatibility, gen.endpoint)
	if err := a.compatible(ctx, gen); err != nil {
		return StepCompatibility, err
	}
	if !a.sessionless {
		a.progress.at(StepConnect, gen.endpoint)
		ctx, cancel := context.WithTimeout(ctx, connectLimit)
		defer cancel()
		if err := gen.keep(ctx, connectRequest(gen.id, a.info)); err != nil {
			return StepConnect, err
		}
	}
	if a.onReady == nil {
		return StepOnReady, nil
	}
	a.progress.at(StepOnReady, gen.endpoint)
	if err := callOnReady(ctx, gen, a.onReady); err != nil {
		return StepOnReady, err
	}
	return StepOnReady, gen.cause() // the session may have ended under it
}

// dial connects to the endpoint and narrows it to the address that it reached. The calls carry who; where that is nil, it is
// made.
func (a *attempter) dial(
	ctx context.Context, endpoint discover.Endpoint, who *identity,
) (*transport, discover.Endpoint, *identity, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	raw, err := a.dialer.Dial(ctx, endpoint)
	if err != nil {
		return nil, endpoint, who, err
	}
	if addr, err := netip.ParseAddrPort(raw.RemoteAddr().String()); err == nil && (a.proxied == nil || !a.proxied(endpoint)) {
		endpoint.Addrs = []netip.AddrPort{addr}
	}
	if who == nil {
		if who, err = a.auth.at(endpoint); err != nil {
			return nil, endpoint, nil, errors.Join(err, raw.Close())
		}
	}
	t, err := newTransport(ctx, raw, endpoint, a.tls, slices.Concat(a.dialOptions, who.dialOptions()))
	if err != nil && a.tls == nil {
		err = fmt.Errorf("plaintext HTTP/2, where the server may want TLS: %w", err)
	}
	return t, endpoint, who, certerr.Explain(err, endpoint.VerifyName())
}

// wait keeps clients that lost their session together from returning together. It says whether ctx is still alive.
func (a *attempter) wait(ctx context.Context) bool {
	if a.maxJitter <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(rand.N(a.maxJitter)) //nolint:gosec // spreads clients, hides nothing
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/discover"
)

const (
	// silenceLimit is how long the server may send no keep-alive. It sends one a second.
	silenceLimit = 5 * time.Second
	// answerLimit is how long our answers may fail. The server gives a client up after 5 s.
	answerLimit = 4 * time.Second
	// pauseLimit is how far two answered keep-alives may lie apart on either clock.
	pauseLimit = 5 * time.Second
)

// generation is one session and the connection under it: to one address of one server, dialled once, with one
// ConnectionId. It begins in open, and ends by itself when the session is lost; close then waits for all of it.
type generation struct {
	number       uint64
	id           string
	endpoint     discover.Endpoint
	observations []balance.Observation
	readyAt      time.Time

	transport *transport
	calls     grpc.ClientConnInterface // the transport's connection; a stub in benchmarks

	ctx    context.Context //nolint:containedctx // the life of the session, whose cause is why it was lost
	cancel context.CancelCauseFunc
	group  sync.WaitGroup

	pulses   atomic.Uint64 // keep-alives that came
	acked    atomic.Uint64 // how many of them an acknowledged answer covers
	received chan struct{} // a keep-alive came; holds one token
	toAnswer chan struct{} // a keep-alive waits for its answer; holds one token
	answered chan struct{} // an answer of ours was acknowledged; holds one token
}

// begin opens the Connect stream on the transport and starts the goroutines that keep the session. It does not wait
// for the first keep-alive.
func (g *generation) begin(request *clientspb.ConnectRequest) error {
	client := clientspb.NewConnectionServiceClient(g.transport.conn)
	stream, err := client.Connect(g.ctx, request)
	if err != nil {
		return err
	}
	g.received, g.toAnswer, g.answered = newToken(), newToken(), newToken()
	g.group.Go(func() { g.end(g.receive(stream)) })
	g.group.Go(func() { g.end(g.answer(client)) })
	g.group.Go(func() { g.end(g.watchTransport()) })
	return nil
}

// awaitFirst waits until the first keep-alive was answered, and then starts the watchdog.
func (g *generation) awaitFirst(ctx context.Context) error {
	select {
	case <-g.answered:
		g.readyAt = time.Now()
		g.group.Go(func() { g.end(g.watch()) })
		return nil
	case <-g.ctx.Done():
		return g.cause()
	case <-ctx.Done():
		return fmt.Errorf("no keep-alive answered: %w", ctx.Err())
	}
}

// end gives the session up. The first cause counts.
func (g *generation) end(cause error) { g.cancel(cause) }

// cause is why the session was lost; nil while it is up.
func (g *generation) cause() error { return context.Cause(g.ctx) }

// close ends the session if it has not ended, closes the connection under it and waits for its goroutines.
func (g *generation) close(cause error) {
	g.end(cause)
	g.transport.close()
	g.group.Wait()
}

// receive takes the server's keep-alives until the stream ends, and returns why it did.
func (g *generation) receive(stream grpc.ServerStreamingClient[clientspb.ConnectionKeepAlive]) error {
	for {
		keepAlive, err := stream.Recv()
		if err != nil {
			return g.streamEnd(err)
		}
		if keepAlive.GetConnectionId() != g.id {
			return ErrWrongID
		}
		g.pulses.Add(1)
		put(g.received)
		put(g.toAnswer)
	}
}

// streamEnd tells a stream that broke with its connection from one that the server ended.
func (g *generation) streamEnd(err error) error {
	if broken := g.transport.failure(); broken != nil {
		return fmt.Errorf("%w: %w", ErrTransportLost, broken)
	}
	if errors.Is(err, io.EOF) {
		return ErrStreamEnded
	}
	return fmt.Errorf("%w: %w", ErrStreamEnded, err)
}

// answer answers keep-alives until the session ends. It runs beside receive, so that a slow answer hides no
// keep-alive; those that come meanwhile share the next answer. An answer that fails is not the end, since the watchdog
// allows for it, but for the first: a server that refuses it will never have this client as its own.
func (g *generation) answer(client clientspb.ConnectionServiceClient) error {
	message := &clientspb.ConnectionKeepAlive{ConnectionId: g.id}
	for first := true; ; first = false {
		select {
		case <-g.toAnswer:
		case <-g.ctx.Done():
			return g.cause()
		}
		covered := g.pulses.Load()
		ctx, cancel := context.WithTimeout(g.ctx, answerLimit)
		_, err := client.ConnectionKeepAlive(ctx, message)
		cancel()
		switch {
		case err == nil:
			g.acked.Store(covered)
			put(g.answered)
		case first:
			return fmt.Errorf("answer the first keep-alive: %w", err)
		}
	}
}

// watch is the watchdog: it returns the rule that the session broke. Answers follow keep-alives, so silence stops them
// too; they count as missing only while there is one to give.
func (g *generation) watch() error {
	silence, unanswered := time.NewTimer(silenceLimit), time.NewTimer(answerLimit)
	defer silence.Stop()
	defer unanswered.Stop()
	last, overdue := time.Now(), false
	for {
		select {
		case <-g.ctx.Done():
			return g.cause()
		case <-g.received:
			silence.Reset(silenceLimit)
			if overdue {
				overdue = false
				unanswered.Reset(time.Until(last.Add(pauseLimit)))
			}
		case <-g.answered:
			now := time.Now()
			if paused(last, now) {
				return ErrPaused
			}
			last, overdue = now, false
			unanswered.Reset(answerLimit)
		case <-silence.C:
			return ErrSilent
		case <-unanswered.C:
			if g.pulses.Load() > g.acked.Load() {
				return ErrUnanswered
			}
			overdue = true
		}
	}
}

// paused says that too much time lies between two answered keep-alives. The monotonic clock stands still while the
// machine is suspended, on Linux at least; the wall clock does not.
func paused(last, now time.Time) bool {
	return now.Sub(last) > pauseLimit || now.Round(0).Sub(last.Round(0)) > pauseLimit
}

// watchTransport returns when the connection leaves READY, for which the stream alone is no sign: after GOAWAY it
// stays open while new calls find no connection.
func (g *generation) watchTransport() error {
	for state := connectivity.Ready; ; state = g.transport.conn.GetState() {
		if state != connectivity.Ready {
			break
		}
		if !g.transport.conn.WaitForStateChange(g.ctx, state) {
			return g.cause()
		}
	}
	if broken := g.transport.failure(); broken != nil {
		return fmt.Errorf("%w: %w", ErrTransportLost, broken)
	}
	return fmt.Errorf("%w: the server asked for no new calls", ErrTransportLost)
}

// newToken makes a channel that holds one token: "at least one since you looked".
func newToken() chan struct{} { return make(chan struct{}, 1) }

func put(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

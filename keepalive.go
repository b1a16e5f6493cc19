// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

const (
	// silenceLimit is how long the server may send no keep-alive. It sends one a second.
	silenceLimit = 5 * time.Second
	// answerLimit is how long our answers may fail. The server gives a client up after 5 s.
	answerLimit = 4 * time.Second
	// pauseLimit is how far two answered keep-alives may lie apart on either clock.
	pauseLimit = 5 * time.Second
)

// keeper keeps the session of a generation: it answers the server's keep-alives and watches for their absence.
type keeper struct {
	gen    *generation
	client clientspb.ConnectionServiceClient

	pulses   atomic.Uint64 // keep-alives that came
	acked    atomic.Uint64 // how many of them an acknowledged answer covers
	received chan struct{} // a keep-alive came; holds one token
	toAnswer chan struct{} // a keep-alive waits for its answer; holds one token
	answered chan struct{} // an answer of ours was acknowledged; holds one token
}

// keep opens the Connect stream and waits until the first keep-alive was answered, or until ctx is done. The goroutines
// it starts end with the session, and the session with them.
func (g *generation) keep(ctx context.Context, request *clientspb.ConnectRequest) error {
	k := &keeper{
		gen: g, client: clientspb.NewConnectionServiceClient(g.currentLanes()[0].calls),
		received: newToken(), toAnswer: newToken(), answered: newToken(),
	}
	stream, err := k.client.Connect(g.announced(), request)
	if err != nil {
		return err
	}
	g.group.Go(func() { g.end(k.converse(stream, request)) })
	g.group.Go(func() { g.end(k.answer()) })
	select {
	case <-k.answered:
		g.group.Go(func() { g.end(k.watch()) })
		return nil
	case <-g.ctx.Done():
		return g.cause()
	case <-ctx.Done():
		return fmt.Errorf("no keep-alive answered: %w", ctx.Err())
	}
}

// converse takes the server's keep-alives until the session is over. A token that was good elsewhere may be refused here:
// then the stream is begun once more, with another one.
func (k *keeper) converse(
	stream grpc.ServerStreamingClient[clientspb.ConnectionKeepAlive], request *clientspb.ConnectRequest,
) error {
	err := k.receive(stream)
	if k.gen.who.renewable() && k.pulses.Load() == 0 && status.Code(err) == codes.Unauthenticated {
		if stream, err = k.client.Connect(k.gen.announced(), request); err == nil {
			err = k.receive(stream)
		}
	}
	if k.pulses.Load() == 0 && refusedClient(err) {
		return k.gen.who.refused(err)
	}
	return err
}

// announced is the context of the Connect stream. It tells the server which reservation stands for the session.
func (g *generation) announced() context.Context {
	if g.reservation == "" {
		return g.ctx
	}
	return metadata.AppendToOutgoingContext(g.ctx, contract.ReservationHeader, g.reservation)
}

// receive takes the server's keep-alives until the stream ends, and returns why it did.
func (k *keeper) receive(stream grpc.ServerStreamingClient[clientspb.ConnectionKeepAlive]) error {
	for {
		keepAlive, err := stream.Recv()
		if err != nil {
			return k.streamEnd(err, stream.Trailer())
		}
		if keepAlive.GetConnectionId() != k.gen.id {
			return ErrWrongID
		}
		k.pulses.Add(1)
		put(k.received)
		put(k.toAnswer)
	}
}

// streamEnd tells a stream that broke with its connection from one that the server ended, and that for what reason.
func (k *keeper) streamEnd(err error, trailer metadata.MD) error {
	if cause := sentAway(trailer); cause != nil {
		return cause // the text of a server of ours says the same
	}
	if broken := k.gen.currentLanes()[0].broken(); broken != nil {
		return broken
	}
	if errors.Is(err, io.EOF) {
		return ErrStreamEnded
	}
	if k.pulses.Load() == 0 {
		return &foreignError{err} // no session has begun that could end
	}
	return fmt.Errorf("%w: %w", ErrStreamEnded, &foreignError{err})
}

// sentAway says why a server of ours ended a stream, where that was to send the client elsewhere; else it is nil.
func sentAway(trailer metadata.MD) error {
	reason := trailer.Get(contract.ReasonTrailer)
	switch {
	case len(reason) == 0:
		return nil
	case reason[0] == contract.ReasonDraining:
		return ErrDraining
	case reason[0] == contract.ReasonShed:
		return ErrShed
	default:
		return nil
	}
}

// answer answers keep-alives until the session ends. It runs beside receive, so that a slow answer hides no
// keep-alive; those that come meanwhile share the next answer. An answer that fails is not the end, since the watchdog
// allows for it, but for the first: a server that refuses it will never have this client as its own.
func (k *keeper) answer() error {
	message := &clientspb.ConnectionKeepAlive{ConnectionId: k.gen.id}
	for first := true; ; first = false {
		select {
		case <-k.toAnswer:
		case <-k.gen.ctx.Done():
			return k.gen.cause()
		}
		covered := k.pulses.Load()
		ctx, cancel := context.WithTimeout(k.gen.ctx, answerLimit)
		_, err := k.client.ConnectionKeepAlive(ctx, message)
		cancel()
		switch {
		case err == nil:
			k.acked.Store(covered)
			put(k.answered)
		case first:
			if refusedClient(err) {
				err = k.gen.who.refused(&foreignError{err})
			}
			return fmt.Errorf("answer the first keep-alive: %w", err)
		}
	}
}

// watch is the watchdog: it returns the rule that the session broke. Answers follow keep-alives, so silence stops them
// too; they count as missing only while there is one to give.
func (k *keeper) watch() error {
	silence, unanswered := time.NewTimer(silenceLimit), time.NewTimer(answerLimit)
	defer silence.Stop()
	defer unanswered.Stop()
	last, overdue := time.Now(), false
	for {
		select {
		case <-k.gen.ctx.Done():
			return k.gen.cause()
		case <-k.received:
			silence.Reset(silenceLimit)
			if overdue {
				overdue = false
				unanswered.Reset(time.Until(last.Add(pauseLimit)))
			}
		case <-k.answered:
			now := time.Now()
			if paused(last, now) {
				return ErrPaused
			}
			last, overdue = now, false
			unanswered.Reset(answerLimit)
		case <-silence.C:
			return ErrSilent
		case <-unanswered.C:
			if k.pulses.Load() > k.acked.Load() {
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

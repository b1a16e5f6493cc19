// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// generation is one session and the connections under it: to one address of one server, each dialled once. It begins in
// attempter.open and ends by itself when the session is lost. Its connections live on until close, so that running
// calls can be let end.
type generation struct {
	number       uint64
	id           string // the ConnectionId; empty without a session
	endpoint     discover.Endpoint
	observations []balance.Observation
	who          *identity // what the calls carry
	reservation  string    // the id of the one that stands for this session; empty where there is none
	readyAt      time.Time

	ctx    context.Context //nolint:containedctx // the life of the session, whose cause is why it ended
	cancel context.CancelCauseFunc
	life   context.Context //nolint:containedctx // the life of the connections, which is longer
	closed context.CancelFunc
	group  sync.WaitGroup

	// dial makes one more connection to the same address.
	dial   func(context.Context) (*transport, error)
	lanes  atomic.Pointer[[]*lane] // the connections; replaced as a whole
	sealed atomic.Bool             // takes no more calls: it is no longer the current one
	idle   chan struct{}           // a lane has become idle after that; holds one token

	mu     sync.Mutex
	flight *flight // guarded by mu: the further connection that is being made
}

// newGeneration makes a generation on a connection. The life of its session and of its connections ends with life.
func newGeneration(life context.Context, first *transport) *generation {
	g := &generation{idle: newToken()}
	g.life, g.closed = context.WithCancel(life)
	g.ctx, g.cancel = context.WithCancelCause(g.life)
	g.lanes.Store(&[]*lane{})
	g.addLane(first)
	return g
}

// addLane takes over a connection: when it leaves READY, the session is over.
func (g *generation) addLane(t *transport) {
	lanes := append(g.currentLanes(), &lane{calls: t.conn, transport: t})
	g.lanes.Store(&lanes)
	g.group.Go(func() { g.end(g.watchTransport(t)) })
}

// currentLanes returns the lanes; appending to the result copies it.
func (g *generation) currentLanes() []*lane {
	lanes := *g.lanes.Load()
	return lanes[:len(lanes):len(lanes)]
}

// end gives the session up. The first cause counts.
func (g *generation) end(cause error) { g.cancel(cause) }

// cause is why the session ended; nil while it is up.
func (g *generation) cause() error { return context.Cause(g.ctx) }

// close ends the session if it has not ended, closes the connections and waits for all goroutines.
func (g *generation) close(cause error) {
	g.sealed.Store(true)
	g.end(cause)
	g.closed()
	g.group.Go(g.who.close)
	g.mu.Lock() // so that no lane is added behind our back
	lanes := g.currentLanes()
	g.mu.Unlock()
	for _, l := range lanes {
		g.group.Go(l.transport.close)
	}
	g.group.Wait()
}

// drain waits until no call is open, for limit at most. Calls that come too late go to the next generation.
func (g *generation) drain(ctx context.Context, limit time.Duration) {
	g.sealed.Store(true)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for g.openCalls() > 0 {
		select {
		case <-g.idle:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// watchTransport returns when the connection leaves READY, for which the Connect stream alone is no sign: after GOAWAY
// it stays open while new calls find no connection.
func (g *generation) watchTransport(t *transport) error {
	for state := connectivity.Ready; state == connectivity.Ready; state = t.conn.GetState() {
		if !t.conn.WaitForStateChange(g.ctx, state) {
			return g.cause()
		}
	}
	return t.lossCause()
}

// lossCause says why a connection is not ready any more.
func (t *transport) lossCause() error {
	if broken := t.broke(); broken != nil {
		return broken
	}
	return ErrGoAway
}

// leaving says that the session ended while its connection works: the server wants the client to go elsewhere, and lets
// it finish what it has begun.
func leaving(cause error) bool {
	return errors.Is(cause, ErrDraining) || errors.Is(cause, ErrShed) || errors.Is(cause, ErrGoAway)
}

// newToken makes a channel that holds one token: "at least one since you looked".
func newToken() chan struct{} { return make(chan struct{}, 1) }

func put(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

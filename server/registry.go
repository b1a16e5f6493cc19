// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"crypto/rand"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/internal/arrival"
)

// Registry knows the clients of one server and those that have said they will come. It is the part to embed: Handler has
// its HTTP side and Register its gRPC side. NewRegistry makes one; the zero value is not usable. It is safe for
// concurrent use.
//
// Counts are exact: a client is counted from the moment its Connect stream is accepted to the moment it is removed, and
// a reservation from the request that makes it until its client comes or it expires, never both for one client.
type Registry struct {
	config RegistryConfig
	start  time.Time // times inside are spans since then, on the monotonic clock
	health *health.Server
	peers  *peers // nil when there are none
	offer  *offer
	// instance tells this server from all others, and from what it was before it was started anew.
	instance string

	// clients has locks of its own. Lock order: mu, then a shard. Keep-alives take a shard's lock only.
	clients *clients

	// mu guards what follows, and makes each change of clients and reservations one step for the count.
	mu           sync.Mutex
	connected    int
	bare         int        // connections that a ConnCounter counts
	places       *admission // of clients
	reservations *reservations
	arrivals     arrival.Rate // of clients, when they are announced, or else when they come
	limiter      *limiter
	phaseNow     atomic.Int32 // a phase; read without mu where a moment later would do as well
	// leaving is closed when the registry serves no longer: it drains, or is closed.
	leaving chan struct{}
	// shedding holds a token while Shed ends streams.
	shedding chan struct{}
	// empty is closed when the registry drains and no client is left.
	empty   chan struct{}
	changed signal // that a client has come or gone

	observers *admission // bounds the open streams of ObserveConnectedClients
	lists     *admission // bounds the answers to GetConnectedClients
	tallies   tallies

	// What Count reads without mu: written under mu after each change. total holds until nextExpiry.
	total      atomic.Int64
	nextExpiry atomic.Int64
}

// NewRegistry returns an empty registry. It starts nothing; Close ends the streams of its clients and the connections to
// its peers.
func NewRegistry(config RegistryConfig) *Registry {
	config = config.withDefaults()
	r := &Registry{
		config:       config,
		start:        time.Now(),
		health:       health.NewServer(),
		clients:      newClients(),
		reservations: newReservations(config.ReservationTTL, config.MaxReservations, config.MaxReservationsPerAddress),
		limiter:      newLimiter(config.ReservationRate, config.ReservationBurst),
		places:       newAdmission(config.MaxClients, config.MaxClientsPerAddress),
		observers:    newAdmission(config.MaxObservers, config.MaxObserversPerAddress),
		lists:        newAdmission(config.MaxLists, config.MaxListsPerAddress),
		empty:        make(chan struct{}),
		leaving:      make(chan struct{}),
		shedding:     make(chan struct{}, 1),
	}
	r.nextExpiry.Store(math.MaxInt64)
	r.instance = rand.Text()
	r.offer = newOffer(config)
	if config.Peers.Resolver != nil {
		r.peers = newPeers(config.Peers, r.instance, config.Logger, config.ObserveInterval)
	}
	return r
}

// Count returns the number of connected clients plus live reservations. It takes no lock as long as no reservation has
// expired since it was last called.
func (r *Registry) Count() int {
	// The time is read first. Whoever changes the count has dropped what was expired by then, so a total read later holds
	// reservations only that are alive now.
	now := r.now()
	if int64(now) < r.nextExpiry.Load() {
		return int(r.total.Load())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reservations.expire(now)
	r.publishLocked()
	return int(r.total.Load())
}

// Close ends the Connect stream of every client with a status that says so, and refuses new clients and reservations; the
// health service answers NOT_SERVING. It does not wait for the streams: whoever serves them does. Closing twice does
// nothing.
//
// Drain, called before, moves the clients elsewhere over a few seconds.
func (r *Registry) Close() {
	r.mu.Lock()
	first := r.advanceLocked(phaseClosed)
	r.noteEmptyLocked()
	r.mu.Unlock()
	if !first {
		return
	}
	r.health.Shutdown()
	if r.peers != nil {
		r.peers.close()
	}
	// No client can be added now, since connect looks at the phase under mu.
	for _, c := range r.clients.all() {
		c.end(contract.ReasonClosing)
	}
}

// now is the time on the registry's own scale.
func (r *Registry) now() time.Duration { return time.Since(r.start) }

// publishLocked makes a change visible to Count.
func (r *Registry) publishLocked() {
	next := int64(math.MaxInt64)
	if expiry, ok := r.reservations.nextExpiry(); ok {
		next = int64(expiry)
	}
	// Count reads nextExpiry before total. Whichever it finds between these, it must not take a total for one that holds
	// longer than it does.
	r.nextExpiry.Store(min(r.nextExpiry.Load(), next))
	r.total.Store(int64(r.countLocked()))
	r.nextExpiry.Store(next)
}

// connect registers a client in place of the reservation that announced it: the one with the id reservation, without an id
// the oldest of its source, if it has one. A silent client of the same source that has its id is replaced and told. It
// returns the reason for which no client is taken, or nothing when it was registered.
func (r *Registry) connect(c *client, from source, reservation string) (refused string) {
	r.mu.Lock()
	refused = r.phase().reason()
	if refused == "" && r.isTakenLocked(c.id, from) {
		refused = contract.ReasonTaken
		r.tallies.taken.Add(1)
	}
	if refused == "" && !r.places.enter(from) {
		refused = contract.ReasonFull
	}
	if refused != "" {
		r.mu.Unlock()
		return refused
	}
	now := r.now()
	c.from, c.since = from, now
	c.beat.seen(now)
	if !c.request.GetIsRunningWithDebugger() {
		// The callback waits for mu, so it finds the client registered.
		c.stale = time.AfterFunc(r.config.StaleAfter, func() { r.checkStale(c) })
	}
	r.reservations.expire(now)
	if !r.takeUpLocked(from, reservation) {
		r.arrivals.Add(now) // nobody announced it
	}
	older := r.clients.put(c)
	if older == nil {
		r.connected++
	} else {
		r.places.leave(older.from)
		r.tallies.replaced.Add(1)
	}
	r.changed.send()
	r.publishLocked()
	r.mu.Unlock()
	if older != nil {
		older.end(contract.ReasonReplaced)
	}
	return ""
}

// silentAfter is how many keep-alives a client may leave unanswered before another one may have its id.
const silentAfter = 2

// isTakenLocked reports whether an id belongs to a client that is to keep it. Ids are no secret, they are in the list of
// clients: were the newer one always to have it, anybody could end any session. Only who comes from the same place as a
// client that has fallen silent is taken for that client, come back before its old connection was known to be dead. All
// clients seen use a new id for each attempt, so none of them ever gets here.
func (r *Registry) isTakenLocked(id string, from source) bool {
	b := r.clients.get(id)
	if b == nil {
		return false
	}
	return b.owner.from != from || b.age(r.now()) < silentAfter*r.config.KeepAliveInterval
}

// disconnect removes a client whose stream ends. It removes nothing when the client was evicted or replaced before.
func (r *Registry) disconnect(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeLocked(c)
}

func (r *Registry) removeLocked(c *client) {
	if c.stale != nil {
		c.stale.Stop()
	}
	if !r.clients.remove(c) {
		return
	}
	r.connected--
	r.places.leave(c.from)
	r.changed.send()
	r.noteEmptyLocked()
	r.reservations.expire(r.now())
	r.publishLocked()
}

// checkStale evicts a client that has been silent for too long, else looks again when it could be. It is the client's own
// timer, so that a silent client is found on time and nothing ever scans all of them.
func (r *Registry) checkStale(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.config.StaleAfter - c.beat.age(r.now())
	if left > 0 {
		if r.clients.get(c.id) == c.beat {
			c.stale.Reset(left)
		}
		return
	}
	if r.clients.get(c.id) != c.beat {
		return // ended or replaced in the meantime
	}
	r.removeLocked(c)
	r.tallies.evicted.Add(1)
	c.end(contract.ReasonEvicted)
}

// keepAlive notes that the client of that id is alive, and reports whether there is one. It allocates nothing.
func (r *Registry) keepAlive(id string) bool {
	b := r.clients.get(id)
	if b == nil {
		r.tallies.unknown.Add(1)
		return false
	}
	b.seen(r.now())
	return true
}

// connectedClients describes the clients, in no order.
func (r *Registry) connectedClients() []*clientspb.ConnectedClient {
	all := r.clients.all()
	described := make([]*clientspb.ConnectedClient, 0, len(all))
	now, wall := r.now(), time.Now()
	for _, c := range all {
		described = append(described, c.describe(wall, c.beat.age(now)))
	}
	return described
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/discover"
)

// closeLimit is how long Close waits for what it ends.
const closeLimit = 80 * time.Millisecond

// ErrClosed is the error of calls on a channel of grpc-go that needs its resolver after Close.
var ErrClosed = errors.New("the channel is closed")

// Channel finds the endpoints of channels of grpc-go. Make one with New. It is safe for concurrent use.
type Channel struct {
	config  Config
	service serviceConfig
	metrics *metrics
	observe *observer

	policyName string        // what grpc-go takes of the service config
	health     string        // the service whose health is watched, by that service config
	txt        bool          // service configs of DNS count
	roll       int           // of 1 to 100, for service configs that are meant for a share of the clients
	system     *net.Resolver // of addresses and service configs where no name server is given

	mu     sync.Mutex
	live   map[*liveResolver]struct{} // guarded by mu
	memory *memory                    // has its own lock, which comes after mu
	closed bool                       // guarded by mu
}

// New checks a config and returns what channels are made with. It uses no network. The error tells all that is wrong
// with the config. The caller closes the channel, after the channels of grpc-go that use it.
func New(config Config) (*Channel, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("channel config: %w", err)
	}
	service, err := newServiceConfig(config)
	if err != nil {
		return nil, fmt.Errorf("channel config: %w", err)
	}
	metrics, err := newMetrics(config.MeterProvider)
	if err != nil {
		return nil, fmt.Errorf("channel config: MeterProvider: %w", err)
	}
	name, err := service.policy()
	if err != nil {
		return nil, fmt.Errorf("channel config: %w", err)
	}
	return &Channel{
		config:     config,
		policyName: name,
		health:     service.health(),
		txt:        txtEnabled(),
		roll:       rand.IntN(100) + 1,
		system:     discover.SystemResolver(),

		service: service,
		metrics: metrics,
		observe: newObserver(config),
		live:    make(map[*liveResolver]struct{}),
		memory:  newMemory(),
	}, nil
}

// DialOptions returns options for grpc.NewClient: the resolvers, and the service config that names the policy. They go
// together with all others; see the package about grpc.WithDefaultServiceConfig.
func (c *Channel) DialOptions() []grpc.DialOption {
	builders := append(c.builders(serviceFromOptions), &dnsBuilder{builder{scheme: schemeDNS, channel: c}})
	return []grpc.DialOption{
		grpc.WithResolvers(builders...),
		grpc.WithDefaultServiceConfig(c.service.json()),
		// With a proxy in the environment grpc-go would leave names to the proxy, and the resolver out.
		grpc.WithLocalDNSResolution(),
	}
}

// Builders returns the resolvers alone, without that of dns, for programs that cannot hand dial options to the code that
// makes their channels; package channel/register is one. With every set they send the service config, which then goes
// before that of grpc.WithDefaultServiceConfig.
func (c *Channel) Builders() []resolver.Builder { return c.builders(serviceFromResolver) }

// ResolveNow asks for a lookup of every target in use. It returns at once: a hint that comes within Config.MinInterval of
// the last lookup is served when that has passed.
func (c *Channel) ResolveNow() {
	for _, r := range c.resolvers() {
		r.hint()
	}
}

// Close ends all lookups and callbacks within 100 ms, also in the middle of a hung lookup. Channels of grpc-go that are
// still open keep the endpoints they have, and fail when they come back from idle mode. A callback that is running is not
// waited for beyond that time. Close may be called several times.
func (c *Channel) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	ended := make(chan struct{})
	go func() { // each of the resolvers ends by itself within the limit, or is left to end later
		defer close(ended)
		var closing sync.WaitGroup
		for _, r := range c.resolvers() {
			closing.Go(r.Close)
		}
		closing.Wait()
		c.observe.close()
	}()
	select {
	case <-ended:
	case <-limit.C:
	}
	return nil
}

// resolvers returns those that live.
func (c *Channel) resolvers() []*liveResolver {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := make([]*liveResolver, 0, len(c.live))
	for r := range c.live {
		live = append(live, r)
	}
	return live
}

// enter notes a resolver that lives. It returns what its target led to last, and whether the channel is still open.
func (c *Channel) enter(r *liveResolver) (last remembered, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return remembered{}, false
	}
	c.live[r] = struct{}{}
	return c.memory.hold(r.config.target), true
}

// leave notes that a resolver has ended; it may be called again.
func (c *Channel) leave(r *liveResolver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, lives := c.live[r]; lives {
		delete(c.live, r)
		c.memory.release(r.config.target)
	}
}

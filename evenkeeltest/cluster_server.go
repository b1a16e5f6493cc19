// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/server"
)

// How long Restart tries to get its port back, and how often it and the waiting functions look.
const (
	restartWithin = 5 * time.Second
	lookInterval  = 5 * time.Millisecond
)

// Server is one server of a Cluster. It keeps its name and its port over restarts, but not its clients: each start is a
// new server, as a new process would be. Its methods are safe for concurrent use.
type Server struct {
	cluster *Cluster
	name    string
	faults  *faults

	// mu guards what follows.
	mu     sync.Mutex
	srv    SRV            // priority and weight of its record
	addr   netip.AddrPort // where the server itself listens
	relay  *Relay         // in front of it; nil where there is none
	run    *serverRun     // nil while the server is down
	last   *server.Registry
	former int // connections accepted in earlier lives
}

// serverRun is one life of a server, from its start to its end.
type serverRun struct {
	server   *server.Server
	listener *faultListener
	front    *front
	auth     *server.Authenticator // nil where nobody is asked for a token
	ended    chan error
}

// Name returns the server's name in the cluster's DNS.
func (s *Server) Name() string { return s.name }

// Addr returns "host:port", as it stands in the cluster's ConnectionString.
func (s *Server) Addr() string { return s.addrPort().String() }

// Endpoint returns the server as it stands in the cluster's ConnectionString: by address, without priority and weight.
func (s *Server) Endpoint() discover.Endpoint {
	addr := s.addrPort()
	return discover.Endpoint{Host: addr.Addr().String(), Port: addr.Port()}
}

// Registry returns the registry of the running server; of one that is down, the registry that it had.
func (s *Server) Registry() *server.Registry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Count returns how many clients and live reservations the server has; 0 when it is down.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return 0
	}
	return s.last.Count()
}

// WaitCount returns when the server's count is n, or with an error that tells the last count once ctx is done.
func (s *Server) WaitCount(ctx context.Context, n int) error {
	return waitCount(ctx, s.name, n, s.Count)
}

// Running reports whether the server is up.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run != nil
}

// Relay returns the relay in front of the server, or nil where Config.Relays asks for none. It stays over Kill and Restart.
func (s *Server) Relay() *Relay {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.relay
}

// OpenConnections returns how many TCP connections to the server are open, of probes and sessions alike; 0 when it is
// down.
func (s *Server) OpenConnections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return 0
	}
	open, _ := s.run.listener.counts()
	return open
}

// AcceptedConnections returns how many TCP connections the server has accepted since it was added, over all its lives.
func (s *Server) AcceptedConnections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return s.former
	}
	_, accepted := s.run.listener.counts()
	return s.former + accepted
}

// SetSRV changes the priority and the weight of the server's SRV record; at the start they are 0 and 100, the same for
// all.
func (s *Server) SetSRV(priority, weight uint16) {
	s.mu.Lock()
	s.srv.Priority, s.srv.Weight = priority, weight
	s.mu.Unlock()
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	s.cluster.publishLocked()
}

// Kill ends the server without notice, as the end of its process would: its port refuses from now on, and every
// connection is reset in whatever it does. The DNS keeps its record. It returns when all of it has ended; killing a
// server that is down does nothing. Behind a relay connections are accepted and reset instead of refused.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killLocked()
}

func (s *Server) killLocked() error {
	run := s.run
	if run == nil {
		return nil
	}
	s.run = nil
	run.listener.reset()
	run.server.Close()
	run.front.close()
	_, accepted := run.listener.counts()
	s.former += accepted
	// The port is closed before the server knows that it is meant to end, and a server killed at once may not have begun.
	if err := <-run.ended; err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, server.ErrClosed) {
		return err
	}
	return nil
}

// Drain ends the server in an orderly way, as SIGTERM does to its process: its clients are told to move, and it serves
// until they have left. It returns when the server is down, with the error of server.Server's Drain. A server that is
// down has nothing to drain.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	run := s.run
	s.mu.Unlock()
	if run == nil {
		return nil
	}
	err := run.server.Drain(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == run { // nobody has killed it meanwhile
		err = errors.Join(err, s.killLocked())
	}
	return err
}

// Restart starts the server again on the port that it had, killing it before where it runs. The error says what has the
// port now.
func (s *Server) Restart() error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.start()
}

// end ends the server for good.
func (s *Server) end() error {
	err := s.Kill()
	s.mu.Lock()
	relay := s.relay
	s.mu.Unlock()
	if relay != nil {
		err = errors.Join(err, relay.Close())
	}
	return err
}

// start begins a new life of the server, on its port if it has had one.
func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return errors.New("start a server: it runs already")
	}
	run, err := s.make()
	if err != nil {
		return err
	}
	if run.listener.Listener, err = s.listenLocked(); err != nil {
		run.server.Close()
		return err
	}
	run.front = newFront(s.cluster.config, run, s.faults)
	run.listener.front = run.front
	go func() { run.ended <- run.server.Serve(run.listener) }()
	s.run, s.last = run, run.server.Registry()
	return nil
}

// make makes the server of a life, which has no port yet.
func (s *Server) make() (*serverRun, error) {
	config := s.cluster.config
	run := &serverRun{listener: &faultListener{faults: s.faults}, ended: make(chan error, 1)}
	registry := config.Registry
	if registry.Name == "" {
		registry.Name = s.name
	}
	settings := server.Config{
		Registry:    server.NewRegistry(registry),
		Plaintext:   config.Plaintext,
		Handler:     config.Handler,
		GRPCOptions: s.faults.options(config),
		Logger:      config.Logger,
		DrainLimit:  config.DrainLimit,
	}
	if !config.Plaintext {
		certificate, err := s.certificate(0)
		if err != nil {
			return nil, err
		}
		run.listener.tls = s.serverTLS(certificate)
		settings.TLS = run.listener.tls.Clone()
		settings.TLS.GetConfigForClient = run.listener.route
	}
	var err error
	if config.Auth != nil {
		if run.auth, err = server.NewAuthenticator(*config.Auth); err != nil {
			return nil, err
		}
		settings.Auth = run.auth
	}
	if run.server, err = server.New(settings); err != nil {
		return nil, err
	}
	if config.Services != nil {
		config.Services(run.server.GRPC())
	}
	return run, nil
}

// listenLocked opens the server's port: a free one the first time, the same one after that. While the server was down the
// system may have given its port to a connection of somebody else's, so it tries for a while.
func (s *Server) listenLocked() (net.Listener, error) {
	listener, err := s.listenAgainLocked()
	if err != nil {
		return nil, err
	}
	s.addr = netip.AddrPortFrom(s.cluster.config.Addr, uint16(listener.Addr().(*net.TCPAddr).Port))
	if s.cluster.config.Relays && s.relay == nil {
		if s.relay, err = NewRelay(s.addr.String()); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
	}
	return listener, nil
}

func (s *Server) listenAgainLocked() (net.Listener, error) {
	want := netip.AddrPortFrom(s.cluster.config.Addr, s.addr.Port())
	listener, err := net.Listen("tcp", want.String())
	if err == nil || want.Port() == 0 {
		return listener, err
	}
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for deadline := time.Now().Add(restartWithin); time.Now().Before(deadline); {
		<-ticker.C
		if listener, err = net.Listen("tcp", want.String()); err == nil {
			return listener, nil
		}
	}
	return nil, err
}

func (s *Server) addrPort() netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.publicLocked()
}

// publicLocked is the address that clients are told: the relay's where there is one.
func (s *Server) publicLocked() netip.AddrPort {
	if s.relay != nil {
		return s.relay.addr
	}
	return s.addr
}

// record is the server's SRV record.
func (s *Server) record() SRV {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SRV{Target: s.name, Port: s.publicLocked().Port(), Priority: s.srv.Priority, Weight: s.srv.Weight}
}

// waitCount looks until count is n. It looks rather than being told, since reservations end without an event.
func waitCount(ctx context.Context, who string, n int, count func() int) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		got := count()
		if got == n {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to count %d, last count %d: %w", who, n, got, context.Cause(ctx))
		}
	}
}

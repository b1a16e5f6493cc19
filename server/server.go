// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// ErrClosed is returned by Serve on a server that was closed before.
var ErrClosed = errors.New("the server is closed")

// How the server looks after its HTTP/2 connections. A client may ping every 10 s; half of that is allowed for, since
// pings sent 10 s apart do not arrive 10 s apart. A peer that does not answer our own ping is gone.
const (
	minPingInterval = 5 * time.Second
	pingInterval    = 30 * time.Second
	pingTimeout     = 10 * time.Second
)

// Sizes of the buffers and headers of a connection, in bytes. Calls of the session protocol are short, and there can be
// many connections; 32 KiB buffers, gRPC's default, are most of what an idle one costs.
const (
	bufferSize     = 4 << 10
	maxHeaderBytes = 64 << 10
)

// closeWithin bounds how long Close waits for handlers of the user's that do not end with their context.
const closeWithin = 90 * time.Millisecond

// Server serves gRPC, HTTP/1.1 and HTTP/2 on one port. New makes one; the zero value is not usable. It is safe for
// concurrent use, and its Close must be called.
//
// A client that offers h2 and not http/1.1 by ALPN is served by grpc-go's own transport, every other one by net/http,
// which passes gRPC requests on to the gRPC server as well. So an HTTP client that offers h2 alone gets 415.
type Server struct {
	config      Config
	registry    *Registry
	ownRegistry bool
	grpc        *grpc.Server
	http        *http.Server
	port        *port
	handlers    inFlight
	work        *activity  // what a drain waits for
	probes      *admission // bounds the requests to the registry's paths
	requests    *admission // bounds those to the user's handler

	// mu guards what follows.
	mu        sync.Mutex
	started   bool
	closed    bool
	listeners map[net.Listener]struct{}
	addr      net.Addr
	// grpcStopped is closed when the orderly end of the gRPC half is over; nil when none was begun.
	grpcStopped chan struct{}

	drainFailure atomic.Pointer[error] // of the first Drain that did not see all clients leave

	halves  sync.WaitGroup // the two loops over handed-over connections
	closing sync.Once
}

// New returns a server that listens nowhere yet. The error names all that is wrong with the configuration.
func New(config Config) (*Server, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	s := &Server{
		config: config, registry: config.Registry, work: newActivity(), listeners: make(map[net.Listener]struct{}),
	}
	if s.registry == nil {
		s.registry, s.ownRegistry = NewRegistry(RegistryConfig{}), true
	}
	s.port = &port{
		timeout: config.HandshakeTimeout,
		open: conns{
			work:   s.work,
			places: newAdmission(config.MaxConnections, config.MaxConnectionsPerAddress),
			epoch:  time.Now().Add(-time.Second),
		},
		admission: newAdmission(config.MaxHandshakes, config.MaxHandshakesPerAddress),
		native:    newHandoff(),
		web:       newHandoff(),
		logger:    config.Logger,
	}
	s.port.life, s.port.end = context.WithCancel(context.Background())
	if !config.Plaintext {
		base, err := config.tlsConfig()
		if err != nil {
			return nil, err
		}
		s.port.tls = routingConfig(base)
	}
	s.probes = newAdmission(config.MaxRequests, config.MaxRequestsPerAddress)
	s.requests = newAdmission(config.MaxRequests, config.MaxRequestsPerAddress)
	s.grpc = s.newGRPC()
	s.registry.Register(s.grpc)
	if config.Admin != (AdminConfig{}) {
		s.registry.registerAdmin(s.grpc, config.Admin)
	}
	s.http = s.newHTTP()
	return s, nil
}

// newGRPC makes the gRPC server. Its own keep-alive finds half-open connections; the policy lets clients ping without
// being cut off for it, with or without streams.
func (s *Server) newGRPC() *grpc.Server {
	config := s.config
	options := append(s.interceptors(),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingInterval, Timeout: pingTimeout}),
		grpc.MaxConcurrentStreams(config.MaxConcurrentStreams),
		grpc.ConnectionTimeout(config.HandshakeTimeout),
		grpc.ReadBufferSize(bufferSize),
		grpc.WriteBufferSize(bufferSize),
		grpc.MaxHeaderListSize(maxHeaderBytes),
	)
	options = append(options, config.GRPCOptions...)
	// These two are last: the port relies on them.
	options = append(options, grpc.Creds(handedOver{}), grpc.WaitForHandlers(true))
	return grpc.NewServer(options...)
}

// newHTTP makes the HTTP server.
func (s *Server) newHTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!s.config.Plaintext)
	protocols.SetUnencryptedHTTP2(s.config.Plaintext)
	return &http.Server{
		Handler:           s.handlers.track(http.HandlerFunc(s.serveHTTP)),
		Protocols:         protocols,
		ReadHeaderTimeout: s.config.HandshakeTimeout,
		IdleTimeout:       s.config.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: int(s.config.MaxConcurrentStreams),
			SendPingTimeout:      pingInterval,
			PingTimeout:          pingTimeout,
			WriteByteTimeout:     writeTimeout,
		},
	}
}

// GRPC returns the gRPC server, for registering further services before Serve.
func (s *Server) GRPC() *grpc.Server { return s.grpc }

// Registry returns the registry that the server serves.
func (s *Server) Registry() *Registry { return s.registry }

// Addr returns the address of the listener that Serve was first called with, or nil before.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Serve takes connections from the listener until Close is called, and then returns nil; otherwise it returns the
// listener's error, or ErrClosed when the server was closed before. It closes the listener. It may be called with several
// listeners at a time.
func (s *Server) Serve(listener net.Listener) error {
	if !s.begin(listener) {
		_ = listener.Close() // not ours to serve, and nobody else will close it
		return ErrClosed
	}
	err := s.port.serve(listener)
	_ = listener.Close() // it has failed or is closed already
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, listener)
	if s.closed {
		return nil
	}
	return err
}

// begin notes a listener and starts the two halves with the first one.
func (s *Server) begin(listener net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.listeners[listener] = struct{}{}
	if s.started {
		return true
	}
	s.started = true
	RegisterReflection(s.grpc) // not before: the user may have one of their own
	s.addr = listener.Addr()
	s.halves.Go(func() { s.half("gRPC", s.grpc.Serve(s.port.native)) })
	s.halves.Go(func() { s.half("HTTP", s.http.Serve(s.port.web)) })
	return true
}

// half reports the end of a half; it ends when the server is closed, and for no other reason that is known.
func (s *Server) half(name string, err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.config.Logger.Error("a half of the port ended", slog.String("half", name), slog.Any("error", err))
	}
}

// Close stops the server at once: it cuts every connection, whatever goes on there, and ends everything the server started.
// It takes less than 100 ms; only a handler, or a callback of
// the TLS configuration, that ignores its context may outlive it. Closing twice is
// harmless.
//
// Drain is the orderly end, in which clients are told and running calls are waited for.
func (s *Server) Close() {
	s.closing.Do(s.close)
}

func (s *Server) close() {
	s.closeListeners()
	s.port.close()
	if s.ownRegistry {
		s.registry.Close()
	}
	s.mu.Lock()
	grpcStopped := s.grpcStopped
	s.mu.Unlock()
	// With their connections gone both end at once, unless a handler of the user's holds one of them.
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.http.Close() // closes what is closed already
		s.grpc.Stop()
		if grpcStopped != nil {
			<-grpcStopped
		}
		s.halves.Wait()
		s.handlers.wait()
		s.port.wait()
	}()
	patience := time.NewTimer(closeWithin)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		s.config.Logger.Warn("closed while a handler was still running")
	}
}

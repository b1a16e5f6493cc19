// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"net"
	"net/http"
	"sync"

	"google.golang.org/grpc/stats"
)

// ConnCounter counts live connections as clients of a registry, for servers without the session protocol: their clients
// are then balanced by connections. Registry.ConnCounter makes one. It is safe for concurrent use.
//
// As a grpc.StatsHandler it counts the connections of grpc-go's own transport, and nothing that comes through
// grpc.Server.ServeHTTP. For that there are two others, which count every connection of a server, those of the probes
// included, which are as many for each server of a cluster: ConnState, as the ConnState of an http.Server, and Listener,
// for whatever accepts connections. Use one of the three.
type ConnCounter struct {
	registry *Registry
}

// ConnCounter returns a counter that feeds the count of the registry, in which every new connection takes up a reservation
// of its address as a client does. On a server that has the session protocol, do without: sessions are counted already.
//
//	registry := server.NewRegistry(server.RegistryConfig{})
//	grpcServer := grpc.NewServer(grpc.StatsHandler(registry.ConnCounter()))
//	mux.Handle("/connections/", registry.Handler())
func (r *Registry) ConnCounter() *ConnCounter { return &ConnCounter{registry: r} }

// TagConn implements stats.Handler. It counts the connection, whose address HandleConn is not told.
func (c *ConnCounter) TagConn(ctx context.Context, tag *stats.ConnTagInfo) context.Context {
	c.registry.opened(sourceOfAddr(tag.RemoteAddr))
	return ctx
}

// HandleConn implements stats.Handler.
func (c *ConnCounter) HandleConn(_ context.Context, event stats.ConnStats) {
	if _, ended := event.(*stats.ConnEnd); ended && !event.IsClient() {
		c.registry.ended()
	}
}

// TagRPC implements stats.Handler; it does nothing.
func (*ConnCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler; it does nothing.
func (*ConnCounter) HandleRPC(context.Context, stats.RPCStats) {}

// ConnState is to be an http.Server's ConnState. A connection that a handler hijacks is counted no more, since net/http
// does not tell when it ends: WebSockets are such, and all connections under golang.org/x/net/http2/h2c, which are
// therefore to be counted by Listener. HTTP/2 of net/http itself, with TLS or with Protocols.SetUnencryptedHTTP2, hijacks
// nothing.
func (c *ConnCounter) ConnState(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.registry.opened(sourceOfAddr(conn.RemoteAddr()))
	case http.StateHijacked, http.StateClosed:
		c.registry.ended()
	case http.StateActive, http.StateIdle:
	}
}

// Listener returns a listener whose connections are counted from Accept until they are closed, whoever has them then. It
// goes below TLS: tls.NewListener(counter.Listener(l), config), or ServeTLS.
func (c *ConnCounter) Listener(l net.Listener) net.Listener {
	return &countingListener{Listener: l, registry: c.registry}
}

// countingListener counts the connections that it accepts.
type countingListener struct {
	net.Listener
	registry *Registry
}

// Accept implements net.Listener.
func (l *countingListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.registry.opened(sourceOfAddr(accepted.RemoteAddr()))
	return &countedConn{Conn: accepted, ended: sync.OnceFunc(l.registry.ended)}, nil
}

// countedConn tells the registry that it was closed.
type countedConn struct {
	net.Conn
	ended func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.ended()
	return c.Conn.Close()
}

// opened counts a connection without a session.
func (r *Registry) opened(from source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bare++
	r.reservations.expire(r.now())
	r.reservations.consume(from)
	r.publishLocked()
}

// ended undoes opened.
func (r *Registry) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bare--
	r.reservations.expire(r.now())
	r.publishLocked()
}

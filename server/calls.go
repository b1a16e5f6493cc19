// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/adminpb"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
)

// ownServices are the services that watch over a server. Some of their calls are open for as long as the server is there,
// so a drain does not wait for them.
var ownServices = [...]string{ //nolint:gochecknoglobals // a table, never written to
	"/" + clientspb.ConnectionService_ServiceDesc.ServiceName + "/",
	"/" + hostpb.Server_ServiceDesc.ServiceName + "/",
	"/" + adminpb.Admin_ServiceDesc.ServiceName + "/",
	"/" + grpc_health_v1.Health_ServiceDesc.ServiceName + "/",
	"/grpc.reflection.",
}

func isOwn(method string) bool {
	for _, service := range ownServices {
		if strings.HasPrefix(method, service) {
			return true
		}
	}
	return false
}

// interceptors check who calls, and watch the calls for the drain. They stand outside those of the user's.
func (s *Server) interceptors() []grpc.ServerOption {
	watch := []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream)}
	if s.config.Auth == nil {
		return watch
	}
	return append(s.config.Auth.ServerOptions(), watch...)
}

func (s *Server) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if isOwn(info.FullMethod) {
		return handler(ctx, request)
	}
	s.work.enter()
	defer s.work.leave()
	return handler(ctx, request)
}

func (s *Server) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	switch {
	case info.FullMethod == clientspb.ConnectionService_Connect_FullMethodName:
		return s.session(service, stream, handler)
	case isOwn(info.FullMethod):
		return s.ownStream(service, stream, info.FullMethod, handler)
	}
	s.work.enter()
	defer s.work.leave()
	return handler(service, stream)
}

// ownStream runs a stream of ours that is no Connect stream, and cuts the connection of a client that does not read what is
// followed.
func (s *Server) ownStream(service any, stream grpc.ServerStream, method string, handler grpc.StreamHandler) error {
	if !isFollowed(method) {
		return handler(service, stream)
	}
	c := s.connOf(stream.Context())
	err := handler(service, followed(stream, c))
	if end, ok := errors.AsType[*endError](err); ok && end.reason == contract.ReasonStalled {
		s.cut(c)
	}
	return err
}

// session runs a Connect stream. A drain waits for the end of the connection that it came on: the client goes on using that
// for the calls that run, and for new ones until it has another.
//
// gRPC frees what a client does not read with the connection only, so that is closed when the client has not read for too
// long. One that was evicted has the same time to take its status, and to come back.
func (s *Server) session(service any, stream grpc.ServerStream, handler grpc.StreamHandler) error {
	c := s.connOf(stream.Context())
	if c == nil || s.registry.phase() != phaseServing {
		return handler(service, stream)
	}
	s.port.open.beginSession(c)
	err := handler(service, stream)
	s.port.open.endSession(c)
	end, ok := errors.AsType[*endError](err)
	switch {
	case !ok:
	case end.reason == contract.ReasonStalled:
		s.cut(c)
	case end.reason == contract.ReasonEvicted:
		time.AfterFunc(s.registry.config.SendTimeout, func() {
			if !s.port.open.inSession(c) {
				s.cut(c)
			}
		})
	}
	return err
}

// connOf returns the connection of a call, or nil where it cannot be told.
func (s *Server) connOf(ctx context.Context) *conn {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	return s.port.open.find(caller.Addr, caller.LocalAddr)
}

// cut closes the connection of a client that does not read or does not answer.
func (s *Server) cut(c *conn) {
	if c == nil {
		return
	}
	s.config.Logger.Debug("closing the connection of a client that does not read or answer", slog.Any("peer", c.RemoteAddr()))
	_ = c.Close() // the client is being cut off; nobody is interested in its socket's troubles
}

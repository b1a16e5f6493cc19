// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
)

// ownServices are the services that watch over a server. Some of their calls are open for as long as the server is there,
// so a drain does not wait for them.
var ownServices = [...]string{ //nolint:gochecknoglobals // a table, never written to
	"/" + clientspb.ConnectionService_ServiceDesc.ServiceName + "/",
	"/" + hostpb.Server_ServiceDesc.ServiceName + "/",
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

// interceptors watch the calls for the drain. They stand outside those of the user's.
func (s *Server) interceptors() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream)}
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
	if info.FullMethod == clientspb.ConnectionService_Connect_FullMethodName {
		s.noteSession(stream.Context())
	}
	if isOwn(info.FullMethod) {
		err := handler(service, stream)
		if _, ok := errors.AsType[*stallError](err); ok {
			s.cut(stream.Context())
		}
		return err
	}
	s.work.enter()
	defer s.work.leave()
	return handler(service, stream)
}

// noteSession has a drain wait for the end of the connection that a session comes on: its client goes on using it for the
// calls that run, and for new ones until it has another.
func (s *Server) noteSession(ctx context.Context) {
	if s.registry.phase() != phaseServing {
		return // refused
	}
	if caller, ok := peer.FromContext(ctx); ok {
		s.port.open.noteSession(caller.Addr, caller.LocalAddr)
	}
}

// cut closes the connection of a call. gRPC keeps what a client does not read until then.
func (s *Server) cut(ctx context.Context) {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return
	}
	s.config.Logger.Info("closing the connection of a client that does not read", slog.Any("peer", caller.Addr))
	if c := s.port.open.find(caller.Addr, caller.LocalAddr); c != nil {
		_ = c.Close() // the client is being cut off; nobody is interested in its socket's troubles
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/contract/adminpb"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// isAnonymous says whether a method needs no token, as it is on stock servers: what a client asks before it has one, and
// what balancers ask. Commands have another secret in the place of the token, and look at it themselves.
func isAnonymous(method string) bool {
	switch method {
	case clientspb.ConnectionService_GetDescriptorSet_FullMethodName,
		clientspb.ConnectionService_CheckCompatibility_FullMethodName:
		return true
	default:
		return strings.HasPrefix(method, "/"+grpc_health_v1.Health_ServiceDesc.ServiceName+"/") ||
			strings.HasPrefix(method, "/"+adminpb.Admin_ServiceDesc.ServiceName+"/")
	}
}

// ServerOptions let only calls with a valid token through; the others end with Unauthenticated before anything else sees
// them, save for interceptors of options that stand before these. Anonymous are the descriptors, the compatibility check
// and gRPC health, as on a stock server. A Server with Config.Auth has them already.
func (a *Authenticator) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(a.unary), grpc.ChainStreamInterceptor(a.stream)}
}

func (a *Authenticator) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := a.checkCall(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

func (a *Authenticator) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := a.checkCall(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return handler(service, stream)
}

// checkCall checks the metadata of a call. A stock server answers 401 without gRPC trailers; clients read that as
// Unauthenticated, and some crash on it.
func (a *Authenticator) checkCall(ctx context.Context, method string) error {
	if isAnonymous(method) {
		return nil
	}
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) == 0 {
		return status.Error(codes.Unauthenticated, "this needs a bearer token")
	}
	if len(values) > 1 {
		return status.Error(codes.Unauthenticated, "more than one authorization")
	}
	if err := a.checkHeader(ctx, values[0]); err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	return nil
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// foreignID is the id of nobody's connection.
const foreignID = "the id of another connection"

// options are the gRPC options of a server: those of the cluster, and what brings the faults of the session in.
func (f *faults) options(config Config) []grpc.ServerOption {
	interval := config.Registry.KeepAliveInterval
	if interval <= 0 {
		interval = time.Second
	}
	return append(slices.Clone(config.GRPCOptions),
		grpc.ChainUnaryInterceptor(f.unary),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if info.FullMethod != clientspb.ConnectionService_Connect_FullMethodName {
				return handler(srv, ss)
			}
			ctx, cancel := context.WithCancel(ss.Context())
			defer cancel()
			s := &faultyStream{ServerStream: ss, ctx: ctx, cancel: cancel, faults: f, interval: interval}
			return s.serve(func() error { return handler(srv, s) })
		}),
	)
}

// unary spoils the answers to keep-alives and to questions about the contract.
func (f *faults) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	switch info.FullMethod {
	case clientspb.ConnectionService_CheckCompatibility_FullMethodName:
		return f.checkCompatibility(ctx, request, handler)
	case clientspb.ConnectionService_GetDescriptorSet_FullMethodName:
		return f.getDescriptorSet(ctx, request, handler)
	}
	if info.FullMethod != clientspb.ConnectionService_ConnectionKeepAlive_FullMethodName {
		return handler(ctx, request)
	}
	fault, changed := f.load()
	for fault.HangAnswers {
		select {
		case <-changed:
			fault, changed = f.load()
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	if fault.FailAnswers != codes.OK {
		return nil, status.Error(fault.FailAnswers, "answers fail here, for a test")
	}
	return handler(ctx, request)
}

// checkCompatibility answers as the fault wants it.
func (f *faults) checkCompatibility(ctx context.Context, request any, handler grpc.UnaryHandler) (any, error) {
	fault, changed := f.load()
	for fault.Contract.Hang {
		select {
		case <-changed:
			fault, changed = f.load()
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	switch c := fault.Contract; {
	case c.Older:
		return nil, status.Error(codes.Unimplemented, "method CheckCompatibility not implemented, for a test")
	case c.Incompatible != "":
		return &clientspb.CompatibilityResponse{Incompatibilities: []string{c.Incompatible}}, nil
	default:
		return handler(ctx, request)
	}
}

// getDescriptorSet answers as the fault wants it.
func (f *faults) getDescriptorSet(ctx context.Context, request any, handler grpc.UnaryHandler) (any, error) {
	fault, _ := f.load()
	switch c := fault.Contract; {
	case !c.Older:
		return handler(ctx, request)
	case c.Schema == "":
		return nil, status.Error(codes.Unimplemented, "method GetDescriptorSet not implemented, for a test")
	default:
		return &clientspb.DescriptorSetResponse{SchemaDefinition: c.Schema}, nil
	}
}

// faultyStream is a Connect stream as the server's own handler sees it.
type faultyStream struct {
	grpc.ServerStream
	ctx      context.Context //nolint:containedctx // what the handler takes for the context of the stream
	cancel   context.CancelFunc
	faults   *faults
	interval time.Duration
	id       string // set by the handler's goroutine before it ends
}

func (s *faultyStream) Context() context.Context { return s.ctx }

// RecvMsg takes down the id of the client.
func (s *faultyStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if request, ok := m.(*clientspb.ConnectRequest); ok && err == nil {
		s.id = request.GetConnectionId()
	}
	return err
}

// SendMsg sends a keep-alive, or what the fault makes of it.
func (s *faultyStream) SendMsg(m any) error {
	fault, _ := s.faults.load()
	switch {
	case fault.NoKeepAlives:
		return nil
	case fault.WrongID:
		m = &clientspb.ConnectionKeepAlive{ConnectionId: foreignID}
	}
	return s.ServerStream.SendMsg(m)
}

// serve runs the server's own handler until it ends or a fault ends it.
func (s *faultyStream) serve(handler func() error) error {
	fault, changed := s.faults.load()
	if fault.RefuseConnect != codes.OK {
		return status.Error(fault.RefuseConnect, "sessions are refused here, for a test")
	}
	ended := make(chan error, 1)
	go func() { ended <- handler() }()
	for {
		if fault.EndStreams || fault.ForgetClients {
			s.cancel() // the handler takes the client out of the table
			err := <-ended
			if fault.ForgetClients && s.id != "" {
				return s.haunt()
			}
			if fault.EndStreams {
				return nil
			}
			return err
		}
		select {
		case err := <-ended:
			return s.hush(err)
		case <-changed:
			fault, changed = s.faults.load()
		}
	}
}

// haunt goes on with the stream of a client that is not in the table any more.
func (s *faultyStream) haunt() error {
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	keepAlive := &clientspb.ConnectionKeepAlive{ConnectionId: s.id}
	for {
		fault, changed := s.faults.load()
		if fault.EndStreams {
			return nil
		}
		if err := s.SendMsg(keepAlive); err != nil {
			return err
		}
		for waiting := true; waiting; {
			select {
			case <-ticker.C:
				waiting = false
			case <-changed:
				if fault, changed = s.faults.load(); fault.EndStreams {
					return nil
				}
			case <-s.ServerStream.Context().Done():
				return status.FromContextError(s.ServerStream.Context().Err()).Err()
			}
		}
	}
}

// hush keeps the end of the stream back while the server is silent.
func (s *faultyStream) hush(end error) error {
	for {
		fault, changed := s.faults.load()
		if !fault.NoKeepAlives {
			return end
		}
		select {
		case <-changed:
		case <-s.ServerStream.Context().Done():
			return end
		}
	}
}

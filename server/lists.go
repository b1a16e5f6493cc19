// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"slices"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

const listMethod = "GetConnectedClients"

// connectionServiceDesc is the service as the contract has it, but with a handler of streams for the list of clients.
// Nobody sees a difference on the wire. gRPC takes the answer of a unary handler off its hands and keeps it for as long as
// the client gives no room for it, be it for ever; a handler of streams stays until its message is on its way, and so can
// be bounded and given up.
func connectionServiceDesc() *grpc.ServiceDesc {
	desc := clientspb.ConnectionService_ServiceDesc
	desc.Methods = slices.DeleteFunc(slices.Clone(desc.Methods), func(m grpc.MethodDesc) bool { return m.MethodName == listMethod })
	desc.Streams = append(slices.Clone(desc.Streams), grpc.StreamDesc{
		StreamName: listMethod, ServerStreams: true,
		Handler: func(service any, stream grpc.ServerStream) error { return service.(*connectionService).list(stream) },
	})
	return &desc
}

// list lists the clients by connection id: those of the cluster, or of this server where there are no peers or the caller
// asks for no more. Servers that did not answer are named in the response metadata.
func (s *connectionService) list(stream grpc.ServerStream) error {
	if err := stream.RecvMsg(new(emptypb.Empty)); err != nil {
		return err // made by grpc-go, and a status already
	}
	r, ctx := s.registry, stream.Context()
	from := sourceOfCall(ctx)
	if !r.lists.enter(from) {
		return status.Error(codes.ResourceExhausted, "too many lists of connected clients at a time")
	}
	defer r.lists.leave(from)
	uncompressed(ctx)
	items, header := r.view(ctx)
	if ctx.Err() != nil {
		return statusOfContext(ctx)
	}
	if err := stream.SetHeader(header); err != nil {
		return err // as above
	}
	return newOutbox(stream, r).send(ctx, &clientspb.IEnumerable_ConnectedClient{Items: items})
}

// view returns the list of clients that a caller is to see, in order, and the response metadata that goes with it.
func (r *Registry) view(ctx context.Context) ([]*clientspb.ConnectedClient, metadata.MD) {
	items := r.connectedClients()
	var header metadata.MD
	switch {
	case wantsLocal(ctx):
		header = r.localHeader()
	case r.peers != nil:
		theirs, failures := r.peers.ask(ctx)
		items, header = append(items, theirs...), failureHeader(failures)
	}
	sortClients(items)
	return items, header
}

// localHeader tells who answers for himself only, and what he takes in proportion to others.
func (r *Registry) localHeader() metadata.MD {
	header := metadata.Pairs(contract.InstanceHeader, r.instance)
	if r.config.Capacity > 0 {
		header.Set(contract.CapacityHeader, strconv.Itoa(r.config.Capacity))
	}
	return header
}

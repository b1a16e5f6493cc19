// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
	"github.com/evenkeel-go/evenkeel/internal/extension"
)

// Register adds the gRPC side to a server that does not serve yet: the ConnectionService, the host service with the
// version, and gRPC health. Where the server already has a health service, that one stays.
func (r *Registry) Register(server *grpc.Server) {
	service := &connectionService{registry: r, empty: &emptypb.Empty{}}
	server.RegisterService(connectionServiceDesc(), service)
	hostpb.RegisterServerServer(server, &hostService{version: r.config.Version, commit: r.config.CommitSHA})
	r.setServing(clientspb.ConnectionService_ServiceDesc.ServiceName)
	r.setServing(hostpb.Server_ServiceDesc.ServiceName)
	if _, ok := server.GetServiceInfo()[grpc_health_v1.Health_ServiceDesc.ServiceName]; !ok {
		grpc_health_v1.RegisterHealthServer(server, r.health)
	}
}

// setServing reports a service as serving; a registry that is closed keeps saying that nothing is.
func (r *Registry) setServing(service string) {
	r.health.SetServingStatus(service, grpc_health_v1.HealthCheckResponse_SERVING)
}

// connectionService is the gRPC face of a registry. The methods that it does not have answer UNIMPLEMENTED, which stock
// clients take for a server that is older than they are.
type connectionService struct {
	clientspb.UnimplementedConnectionServiceServer
	registry *Registry
	empty    *emptypb.Empty // the one answer to all keep-alives, never written to
}

// Connect registers a client for as long as its stream is open and sends it keep-alives.
func (s *connectionService) Connect(request *clientspb.ConnectRequest, stream grpc.ServerStreamingServer[clientspb.ConnectionKeepAlive]) error {
	if err := checkConnectionID(request.GetConnectionId()); err != nil {
		s.registry.tallies.invalid.Add(1)
		return err
	}
	ctx := stream.Context()
	c := newClient(request, s.registry.addressSeenBy(ctx))
	if refused := s.registry.connect(c, sourceOfCall(ctx), reservationOf(ctx)); refused != "" {
		return s.endStream(stream, refused)
	}
	defer s.registry.disconnect(c)
	return s.sendKeepAlives(c, stream)
}

// reservationOf is the id of the reservation that a client says stands for it; empty where it says nothing. What cannot be
// an id is the id of none.
func reservationOf(ctx context.Context) string {
	const ofNone = "?"
	switch values := metadata.ValueFromIncomingContext(ctx, contract.ReservationHeader); {
	case len(values) == 0:
		return ""
	case len(values) > 1 || !extension.ValidID(values[0]):
		return ofNone
	default:
		return values[0]
	}
}

// sendKeepAlives sends one at once and then one in each interval, until the client leaves, is ended, or does not read.
func (s *connectionService) sendKeepAlives(c *client, stream grpc.ServerStream) error {
	ticker := time.NewTicker(s.registry.config.KeepAliveInterval)
	defer ticker.Stop()
	keepAlive := &clientspb.ConnectionKeepAlive{ConnectionId: c.id}
	out, ended, leaves := newOutbox(stream, s.registry), c.ended, stream.Context().Done()
	c.isOwedKeepAlive() // the first one always is
	out.begin(keepAlive)
	for {
		select {
		case err := <-out.sent:
			out.finish()
			if err != nil {
				return err // made by grpc-go, and a status already
			}
			if ended == nil {
				return s.endStream(stream, c.reason)
			}
		case <-ticker.C:
			if out.stalled() {
				return out.stall()
			}
			// A client that does not read is owed no more than one. One that was ended waits for that one only.
			if !out.pending && c.isOwedKeepAlive() {
				out.begin(keepAlive)
			}
		case <-ended:
			if !out.pending {
				return s.endStream(stream, c.reason)
			}
			ended = nil // the status follows the message that is on its way
		case <-leaves:
			return statusOfContext(stream.Context())
		}
	}
}

// endStream says why, in the trailer for programs and in the status for people.
func (s *connectionService) endStream(stream grpc.ServerStream, reason string) error {
	stream.SetTrailer(metadata.Pairs(contract.ReasonTrailer, reason))
	return endStatus(reason, s.registry.config.StaleAfter)
}

// ConnectionKeepAlive notes that a client is alive. As with a stock server an id that is not registered is no error: the
// client learns of it from its Connect stream.
func (s *connectionService) ConnectionKeepAlive(_ context.Context, keepAlive *clientspb.ConnectionKeepAlive) (*emptypb.Empty, error) {
	s.registry.keepAlive(keepAlive.GetConnectionId())
	return s.empty, nil
}

// addressSeenBy is what the list of clients calls this server: its name, or else the address that the caller reached.
func (r *Registry) addressSeenBy(ctx context.Context) string {
	if r.config.Name != "" {
		return r.config.Name
	}
	if caller, ok := peer.FromContext(ctx); ok && caller.LocalAddr != nil {
		return caller.LocalAddr.String()
	}
	return ""
}

// hostService answers which version runs.
type hostService struct {
	hostpb.UnimplementedServerServer
	version, commit string
}

// GetVersionInfo returns the version. Some clients call it to see whether the server is ready.
func (s *hostService) GetVersionInfo(context.Context, *emptypb.Empty) (*hostpb.ServerVersionInfo, error) {
	return &hostpb.ServerVersionInfo{Version: s.version, CommitSha: s.commit}, nil
}

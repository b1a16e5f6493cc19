// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
	"github.com/evenkeel-go/evenkeel/contract/internal/registry"
	"github.com/evenkeel-go/evenkeel/internal/memnet"
)

// files are the generated files and the names that they define.
func files() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{clientspb.File_clients_proto, hostpb.File_host_proto}
}

// A program that links another Chronicle client must start: its generated code registers the names that ours has.
func TestGlobalRegistryDoesNotKnowOurNames(t *testing.T) {
	t.Parallel()
	for _, file := range files() {
		if _, err := protoregistry.GlobalFiles.FindFileByPath(file.Path()); !errors.Is(err, protoregistry.NotFound) {
			t.Errorf("global registry, file %s: got error %v, want NotFound", file.Path(), err)
		}
		for i := range file.Messages().Len() {
			name := file.Messages().Get(i).FullName()
			if _, err := protoregistry.GlobalTypes.FindMessageByName(name); !errors.Is(err, protoregistry.NotFound) {
				t.Errorf("global registry, message %s: got error %v, want NotFound", name, err)
			}
			if _, err := registry.Types.FindMessageByName(name); err != nil {
				t.Errorf("own registry, message %s: got error %v, want none", name, err)
			}
		}
		for i := range file.Services().Len() {
			name := file.Services().Get(i).FullName()
			if _, err := protoregistry.GlobalFiles.FindDescriptorByName(name); !errors.Is(err, protoregistry.NotFound) {
				t.Errorf("global registry, service %s: got error %v, want NotFound", name, err)
			}
			if _, err := registry.Files.FindDescriptorByName(name); err != nil {
				t.Errorf("own registry, service %s: got error %v, want none", name, err)
			}
		}
	}
}

// What another client's generated code does at start, on a registry of its own: nothing of ours stands in its way. Our
// own registry refuses a second set, so a mistake in the generated code is not overlooked.
func TestAnotherImplementationCanRegister(t *testing.T) {
	t.Parallel()
	for _, file := range files() {
		other := new(protoregistry.Files)
		if err := other.RegisterFile(file); err != nil {
			t.Errorf("register %s elsewhere: %v", file.Path(), err)
		}
		if err := registry.Files.RegisterFile(file); err == nil {
			t.Errorf("register %s a second time in our own registry: got no error, want one", file.Path())
		}
	}
}

func TestImportsResolve(t *testing.T) {
	t.Parallel()
	for _, file := range files() {
		for i := range file.Imports().Len() {
			imported := file.Imports().Get(i)
			if imported.IsPlaceholder() {
				t.Errorf("%s imports %s: got a placeholder, want the file", file.Path(), imported.Path())
			}
		}
	}
	if _, err := registry.Files.FindDescriptorByName("google.protobuf.Empty"); err != nil {
		t.Errorf("find google.protobuf.Empty behind our registry: %v", err)
	}
	if _, err := registry.Files.FindFileByPath("no/such.proto"); !errors.Is(err, protoregistry.NotFound) {
		t.Errorf("find a file that does not exist: got error %v, want NotFound", err)
	}
}

// The numbers are the contract: a stock peer reads fields by them.
func TestFieldNumbers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		message proto.Message
		fields  []protoreflect.Name
	}{
		{&clientspb.ConnectRequest{}, []protoreflect.Name{"ConnectionId", "ClientVersion", "IsRunningWithDebugger", "ProcessId", "ProcessPath", "MachineName", "ClientType"}},
		{&clientspb.ConnectionKeepAlive{}, []protoreflect.Name{"ConnectionId"}},
		{&clientspb.ConnectedClient{}, []protoreflect.Name{"ConnectionId", "Version", "LastSeen", "IsRunningWithDebugger", "SiloAddress", "ProcessId", "ProcessPath", "MachineName", "ClientType"}},
		{&clientspb.IEnumerable_ConnectedClient{}, []protoreflect.Name{"items"}},
		{&clientspb.SerializableDateTimeOffset{}, []protoreflect.Name{"Value"}},
		{&clientspb.DescriptorSetResponse{}, []protoreflect.Name{"SchemaDefinition"}},
		{&clientspb.CompatibilityRequest{}, []protoreflect.Name{"ClientType", "ClientVersion", "ProtocolVersion", "DescriptorSet"}},
		{&clientspb.CompatibilityResponse{}, []protoreflect.Name{"IsCompatible", "Incompatibilities", "ServerVersion", "ServerProtocolVersion", "Capabilities"}},
		{&hostpb.ServerVersionInfo{}, []protoreflect.Name{"Version", "CommitSha"}},
	}
	for _, tt := range tests {
		descriptor := tt.message.ProtoReflect().Descriptor()
		t.Run(string(descriptor.Name()), func(t *testing.T) {
			t.Parallel()
			var got []protoreflect.Name
			for number := 1; number <= descriptor.Fields().Len(); number++ {
				if field := descriptor.Fields().ByNumber(protowire.Number(number)); field != nil {
					got = append(got, field.Name())
				}
			}
			if diff := cmp.Diff(tt.fields, got); diff != "" {
				t.Errorf("fields by number (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMethodPaths(t *testing.T) {
	t.Parallel()
	got := []string{
		clientspb.ConnectionService_Connect_FullMethodName,
		clientspb.ConnectionService_ConnectionKeepAlive_FullMethodName,
		clientspb.ConnectionService_GetConnectedClients_FullMethodName,
		clientspb.ConnectionService_ObserveConnectedClients_FullMethodName,
		clientspb.ConnectionService_GetDescriptorSet_FullMethodName,
		clientspb.ConnectionService_CheckCompatibility_FullMethodName,
		hostpb.Server_GetVersionInfo_FullMethodName,
	}
	const clients = "/Cratis.Chronicle.Contracts.Clients.ConnectionService/"
	want := []string{
		clients + "Connect", clients + "ConnectionKeepAlive", clients + "GetConnectedClients",
		clients + "ObserveConnectedClients", clients + "GetDescriptorSet", clients + "CheckCompatibility",
		"/Cratis.Chronicle.Contracts.Host.Server/GetVersionInfo",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

// echo answers with what it was asked, so that a round trip shows every field.
type echo struct {
	clientspb.UnimplementedConnectionServiceServer
	hostpb.UnimplementedServerServer
	connected *clientspb.ConnectRequest
}

func (e *echo) Connect(request *clientspb.ConnectRequest, stream grpc.ServerStreamingServer[clientspb.ConnectionKeepAlive]) error {
	e.connected = request
	return stream.Send(&clientspb.ConnectionKeepAlive{ConnectionId: request.GetConnectionId()})
}

func (e *echo) ConnectionKeepAlive(context.Context, *clientspb.ConnectionKeepAlive) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

func (e *echo) GetVersionInfo(context.Context, *emptypb.Empty) (*hostpb.ServerVersionInfo, error) {
	return &hostpb.ServerVersionInfo{Version: "1.2.3", CommitSha: "abc"}, nil
}

// dialEcho serves an echo in memory and returns a connection to it.
func dialEcho(t *testing.T) (*echo, *grpc.ClientConn) {
	t.Helper()
	service := &echo{}
	server := grpc.NewServer()
	clientspb.RegisterConnectionServiceServer(server, service)
	hostpb.RegisterServerServer(server, service)
	listener := memnet.Listen()
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///echo", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatalf("new client: %v", err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("close the connection: %v", err)
		}
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return service, conn
}

func TestMessagesRoundTripThroughGRPC(t *testing.T) {
	t.Parallel()
	service, conn := dialEcho(t)
	client := clientspb.NewConnectionServiceClient(conn)
	request := &clientspb.ConnectRequest{
		ConnectionId: "id", ClientVersion: "1", IsRunningWithDebugger: true, ProcessId: 7,
		ProcessPath: "/bin/x", MachineName: "m", ClientType: "Go",
	}
	stream, err := client.Connect(t.Context(), request)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	keepAlive, err := stream.Recv()
	if err != nil {
		t.Fatalf("receive a keep-alive: %v", err)
	}
	if got, want := keepAlive.GetConnectionId(), "id"; got != want {
		t.Errorf("keep-alive: got id %q, want %q", got, want)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("end of the stream: got %v, want EOF", err)
	}
	if diff := cmp.Diff(request, service.connected, protocmp.Transform()); diff != "" {
		t.Errorf("request as received (-sent +received):\n%s", diff)
	}
	if _, err := client.ConnectionKeepAlive(t.Context(), keepAlive); err != nil {
		t.Errorf("ConnectionKeepAlive: %v", err)
	}
	version, err := hostpb.NewServerClient(conn).GetVersionInfo(t.Context(), &emptypb.Empty{})
	if err != nil || version.GetVersion() != "1.2.3" || version.GetCommitSha() != "abc" {
		t.Errorf("GetVersionInfo: got %v, %v, want 1.2.3, abc", version, err)
	}
}

func TestUnknownMethodsAnswerUnimplemented(t *testing.T) {
	t.Parallel()
	_, conn := dialEcho(t)
	const reset = "/Cratis.Chronicle.Contracts.Host.Server/ResetKernelState"
	err := conn.Invoke(t.Context(), reset, &emptypb.Empty{}, &emptypb.Empty{})
	if got, want := status.Code(err), codes.Unimplemented; got != want {
		t.Errorf("ResetKernelState: got %v (%v), want %v", got, err, want)
	}
	_, err = clientspb.NewConnectionServiceClient(conn).GetDescriptorSet(t.Context(), &emptypb.Empty{})
	if got, want := status.Code(err), codes.Unimplemented; got != want {
		t.Errorf("GetDescriptorSet: got %v (%v), want %v", got, err, want)
	}
}

func TestMessagesRoundTripThroughJSON(t *testing.T) {
	t.Parallel()
	want := &clientspb.IEnumerable_ConnectedClient{Items: []*clientspb.ConnectedClient{{
		ConnectionId: "id", LastSeen: &clientspb.SerializableDateTimeOffset{Value: "2026-10-06T12:34:56.1234567+00:00"},
	}}}
	text, err := protojson.Marshal(want)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	got := &clientspb.IEnumerable_ConnectedClient{}
	if err := protojson.Unmarshal(text, got); err != nil {
		t.Fatalf("unmarshal %s: %v", text, err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("through JSON (-want +got):\n%s", diff)
	}
}

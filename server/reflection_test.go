// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/evenkeel-go/evenkeel/server"
)

func TestReflectionDescribesTheContract(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{})
	stream, err := reflectionv1.NewServerReflectionClient(f.grpcConn(t)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatalf("reflection: %v", err)
	}
	ask := func(request *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(request); err != nil {
			t.Fatalf("ask %v: %v", request, err)
		}
		response, err := stream.Recv()
		if err != nil || response.GetErrorResponse() != nil {
			t.Fatalf("ask %v: got %v, %v, want an answer", request, response, err)
		}
		return response
	}
	var services []string
	listed := ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
	for _, service := range listed.GetListServicesResponse().GetService() {
		services = append(services, service.GetName())
	}
	const ours = "Cratis.Chronicle.Contracts.Clients.ConnectionService"
	for _, want := range []string{ours, "Cratis.Chronicle.Contracts.Host.Server", "grpc.health.v1.Health"} {
		if !slices.Contains(services, want) {
			t.Errorf("services: got %q, want %s among them", services, want)
		}
		found := ask(&reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: want},
		})
		file := &descriptorpb.FileDescriptorProto{}
		files := found.GetFileDescriptorResponse().GetFileDescriptorProto()
		if len(files) == 0 {
			t.Fatalf("description of %s: got no file", want)
		}
		if err := proto.Unmarshal(files[0], file); err != nil || len(file.GetService()) == 0 {
			t.Errorf("description of %s: got %v, %v, want a file with services", want, file, err)
		}
	}
}

func TestReflectionInTheOlderVersion(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{})
	stream, err := reflectionv1alpha.NewServerReflectionClient(f.grpcConn(t)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatalf("reflection: %v", err)
	}
	if err := stream.Send(&reflectionv1alpha.ServerReflectionRequest{ //nolint:staticcheck // as above
		MessageRequest: &reflectionv1alpha.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "Cratis.Chronicle.Contracts.Host.Server", //nolint:staticcheck // as above
		},
	}); err != nil {
		t.Fatalf("ask: %v", err)
	}
	response, err := stream.Recv()
	if err != nil || len(response.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 { //nolint:staticcheck // as above
		t.Errorf("got %v, %v, want a file", response, err)
	}
}

func TestReflectionOfTheUsersOwnStays(t *testing.T) {
	t.Parallel()
	// A second registration of the same service would end the program.
	f := serveMemory(t, server.Config{}, func(s *server.Server) { reflection.Register(s.GRPC()) })
	if err := askHealth(t, f.grpcConn(t)); err != nil {
		t.Errorf("call: %v", err)
	}
	server.RegisterReflection(grpc.NewServer())
}

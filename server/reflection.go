// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/evenkeel-go/evenkeel/contract"
)

// RegisterReflection adds gRPC reflection, versions v1 and v1alpha, to a server that does not serve yet. It describes the
// services of the contract as well as those of the program's own; grpc-go's reflection.Register would find only the
// latter. Where the server has a version of it already, that one stays. A Server does this by itself.
func RegisterReflection(server *grpc.Server) {
	options := reflection.ServerOptions{Services: server, DescriptorResolver: contract.Files()}
	there := server.GetServiceInfo()
	if _, ok := there[reflectionv1.ServerReflection_ServiceDesc.ServiceName]; !ok {
		reflectionv1.RegisterServerReflectionServer(server, reflection.NewServerV1(options))
	}
	if _, ok := there[reflectionv1alpha.ServerReflection_ServiceDesc.ServiceName]; !ok {
		reflectionv1alpha.RegisterServerReflectionServer(server, reflection.NewServer(options))
	}
}

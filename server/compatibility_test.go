// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
	"github.com/evenkeel-go/evenkeel/server"
)

// serviceFile is a file with one service and its messages.
func serviceFile(pkg, service string, methods ...string) *descriptorpb.FileDescriptorProto {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String(pkg + ".proto"), Package: proto.String(pkg), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Request"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("EventStore"), Number: proto.Int32(1),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		}}}},
	}
	s := &descriptorpb.ServiceDescriptorProto{Name: proto.String(service)}
	for _, name := range methods {
		s.Method = append(s.Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: proto.String("." + pkg + ".Request"), OutputType: proto.String("." + pkg + ".Request"),
		})
	}
	file.Service = []*descriptorpb.ServiceDescriptorProto{s}
	return file
}

// marshalSet returns files as clients send them.
func marshalSet(t *testing.T, files ...*descriptorpb.FileDescriptorProto) []byte {
	t.Helper()
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// eventStore is what stock clients send: ConnectionService as ours, a host service with methods that ours does not have,
// protobuf's Empty, and 20 services that nobody here has.
func eventStore(t *testing.T) []byte {
	t.Helper()
	host := protodesc.ToFileDescriptorProto(hostpb.File_host_proto)
	for _, name := range []string{"ReloadState", "ResetKernelState"} {
		host.Service[0].Method = append(host.Service[0].Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: proto.String(".google.protobuf.Empty"), OutputType: proto.String(".google.protobuf.Empty"),
		})
	}
	files := []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(emptypb.File_google_protobuf_empty_proto),
		protodesc.ToFileDescriptorProto(clientspb.File_clients_proto), host,
	}
	for i := range 20 {
		files = append(files, serviceFile(fmt.Sprintf("Cratis.Chronicle.Contracts.Part%d", i), "Service", "Get", "Observe"))
	}
	return marshalSet(t, files...)
}

// declared is a contract of the program's own.
func declared(t *testing.T, files ...*descriptorpb.FileDescriptorProto) *contract.Contract {
	t.Helper()
	c, err := contract.Parse(marshalSet(t, files...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serveOffer serves a registry and returns a client of it.
func serveOffer(t *testing.T, config server.RegistryConfig) clientspb.ConnectionServiceClient {
	t.Helper()
	registry := server.NewRegistry(config)
	t.Cleanup(registry.Close)
	f := serveTCP(t, server.Config{Registry: registry})
	return clientspb.NewConnectionServiceClient(f.grpcConn(t))
}

// check asks the server and wants an answer.
func check(t *testing.T, client clientspb.ConnectionServiceClient, set []byte) *clientspb.CompatibilityResponse {
	t.Helper()
	answer, err := client.CheckCompatibility(t.Context(), &clientspb.CompatibilityRequest{
		ClientType: ".NET", ClientVersion: "18.4.1", ProtocolVersion: "18.4.1", DescriptorSet: set,
	})
	if err != nil {
		t.Fatalf("CheckCompatibility: %v", err)
	}
	return answer
}

func TestAClientOfAWholeEventStoreIsCompatibleUnlessTheContractsAreComplete(t *testing.T) {
	t.Parallel()
	shop := declared(t, serviceFile("shop", "Sales", "Buy"))
	for name, config := range map[string]server.RegistryConfig{
		"nothing declared":    {},
		"a contract declared": {Contract: shop},
	} {
		answer := check(t, serveOffer(t, config), eventStore(t))
		if !answer.GetIsCompatible() || len(answer.GetIncompatibilities()) > 0 {
			t.Errorf("%s: got incompatible: %v", name, answer.GetIncompatibilities())
		}
	}
	answer := check(t, serveOffer(t, server.RegistryConfig{
		Contract: shop, ContractComplete: true, Version: "1.2.3", ProtocolVersion: "4.5.6",
	}), eventStore(t))
	if answer.GetIsCompatible() {
		t.Error("complete contracts: got compatible")
	}
	if got, want := len(answer.GetIncompatibilities()), 22; got != want { // 20 services and 2 methods of the host
		t.Errorf("complete contracts: got %d things missing, want %d: %v", got, want, answer.GetIncompatibilities())
	}
	for _, want := range []string{
		"Cratis.Chronicle.Contracts.Part7.Service: the service is missing",
		"Cratis.Chronicle.Contracts.Host.Server/ResetKernelState: the method is missing",
	} {
		if !slices.Contains(answer.GetIncompatibilities(), want) {
			t.Errorf("no %q among %v", want, answer.GetIncompatibilities())
		}
	}
	if answer.GetServerVersion() != "1.2.3" || answer.GetServerProtocolVersion() != "4.5.6" {
		t.Errorf("versions: got %q and %q", answer.GetServerVersion(), answer.GetServerProtocolVersion())
	}
}

func TestAServiceThatBothSidesHaveIsCompared(t *testing.T) {
	t.Parallel()
	client := serveOffer(t, server.RegistryConfig{Contract: declared(t, serviceFile("shop", "Sales", "Buy"))})
	tests := []struct {
		name string
		set  []byte
		want []string
	}{
		{"the same", marshalSet(t, serviceFile("shop", "Sales", "Buy")), nil},
		{"less", marshalSet(t, serviceFile("shop", "Sales")), nil},
		{"another service", marshalSet(t, serviceFile("toy", "Sales", "Play")), nil},
		{"nothing", nil, nil},
		{"what our client sends", contract.Session().DescriptorSet(), nil},
		{"all of our contract", contract.DescriptorSet(), nil},
		{"a method more", marshalSet(t, serviceFile("shop", "Sales", "Buy", "Sell")), []string{"shop.Sales/Sell: the method is missing"}},
		{
			"a method of the ConnectionService more",
			marshalSet(t, serviceFile("Cratis.Chronicle.Contracts.Clients", "ConnectionService", "Shed")),
			[]string{"Cratis.Chronicle.Contracts.Clients.ConnectionService/Shed: the method is missing"},
		},
		{
			"no descriptor set", []byte("\x1b[2J\x00 nonsense"),
			[]string{"the client's descriptor set is of no use: contract: the descriptor set cannot be read"},
		},
	}
	for _, tt := range tests {
		for _, turn := range []string{"first", "again"} {
			answer := check(t, client, tt.set)
			got := answer.GetIncompatibilities()
			same := slices.EqualFunc(got, tt.want, strings.HasPrefix)
			if !same || answer.GetIsCompatible() != (len(tt.want) == 0) {
				t.Errorf("%s, %s: got %v %v, want %v", tt.name, turn, answer.GetIsCompatible(), got, tt.want)
			}
		}
	}
}

func TestGetDescriptorSetAnswersWithTheTextOfTheDeclaredContract(t *testing.T) {
	t.Parallel()
	_, err := serveOffer(t, server.RegistryConfig{}).GetDescriptorSet(t.Context(), &emptypb.Empty{})
	if got, want := status.Code(err), codes.Unimplemented; got != want {
		t.Errorf("nothing declared: got %v (%v), want %v", got, err, want)
	}
	fromText, err := contract.ParseSchema("package shop; message Request {} service Sales { rpc Buy (Request) returns (Request); }")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*contract.Contract{
		"from descriptors": declared(t, serviceFile("shop", "Sales", "Buy")), "from a text": fromText,
	} {
		answer, err := serveOffer(t, server.RegistryConfig{Contract: c}).GetDescriptorSet(t.Context(), &emptypb.Empty{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		read, err := contract.ParseSchema(answer.GetSchemaDefinition())
		want := []string{"Cratis.Chronicle.Contracts.Clients.ConnectionService", "Cratis.Chronicle.Contracts.Host.Server", "shop.Sales"}
		if err != nil || !slices.Equal(read.Services(), want) {
			t.Errorf("%s: got %v, %v, want %v", name, read.Services(), err, want)
		}
	}
}

// Anybody may ask, as often as he likes: what waits and what runs is bounded, and the calls of others go through.
func TestAFloodOfComparisonsIsBounded(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{})
	t.Cleanup(registry.Close)
	f := serveTCP(t, server.Config{Registry: registry})
	client, other := clientspb.NewConnectionServiceClient(f.grpcConn(t)), f.grpcConn(t)
	fleet := eventStore(t)
	var floods sync.WaitGroup
	for i := range 200 {
		floods.Go(func() {
			set := append(bytes.Repeat([]byte{0x60, 0x00}, 10<<10), byte(0x60), byte(i%128)) // another one each time
			answer, err := client.CheckCompatibility(t.Context(), &clientspb.CompatibilityRequest{DescriptorSet: set})
			if code := status.Code(err); code != codes.OK && code != codes.ResourceExhausted {
				t.Errorf("check %d: %v", i, err)
			}
			if err == nil && !answer.GetIsCompatible() {
				t.Errorf("check %d: %v", i, answer.GetIncompatibilities())
			}
		})
	}
	for range 200 { // a fleet that comes back at once: all the same
		floods.Go(func() {
			answer, err := clientspb.NewConnectionServiceClient(other).CheckCompatibility(
				t.Context(), &clientspb.CompatibilityRequest{DescriptorSet: fleet})
			if status.Code(err) != codes.ResourceExhausted && !answer.GetIsCompatible() {
				t.Errorf("a client of the fleet: %v, %v", answer.GetIncompatibilities(), err)
			}
		})
	}
	session := connect(t, other, named("beside the flood"))
	floods.Wait()
	session.cancel()
	_ = session.wait() // it was cancelled
}

func TestWhatAClientSaysOfItselfIsPlainInTheLog(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	client := serveOffer(t, server.RegistryConfig{
		Contract: declared(t, serviceFile("shop", "Sales", "Buy")), Logger: log.logger(),
	})
	if _, err := client.CheckCompatibility(t.Context(), &clientspb.CompatibilityRequest{
		ClientType: "\x1b[2J" + longText(5000), ClientVersion: "a\nb", DescriptorSet: marshalSet(t, serviceFile("shop", "Sales", "Sell")),
	}); err != nil {
		t.Fatal(err)
	}
	got := log.String()
	if !strings.Contains(got, "shop.Sales/Sell: the method is missing") {
		t.Errorf("log: got %q, want what is missing", got)
	}
	if strings.ContainsAny(strings.TrimSuffix(got, "\n"), "\x1b\n") || len(got) > 1000 {
		t.Errorf("log: got %d bytes %q, want a short plain line", len(got), got)
	}
}

// A fleet that reconnects asks the same question a thousand times at once, and every client gets an answer.
func TestAFleetThatComesBackAtOnceIsAnswered(t *testing.T) {
	t.Parallel()
	client, set := serveOffer(t, server.RegistryConfig{}), eventStore(t)
	gone, cancel := context.WithCancel(t.Context())
	var fleet sync.WaitGroup
	for i := range 500 {
		fleet.Go(func() {
			ctx := t.Context()
			if i%10 == 0 {
				ctx = gone // some give up, and leave the question to others
			}
			answer, err := client.CheckCompatibility(ctx, &clientspb.CompatibilityRequest{DescriptorSet: set})
			if !answer.GetIsCompatible() && ctx.Err() == nil {
				t.Errorf("client %d: %v, %v", i, answer.GetIncompatibilities(), err)
			}
		})
	}
	cancel()
	fleet.Wait()
}

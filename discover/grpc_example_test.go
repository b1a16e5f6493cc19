// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// Any grpc-go resolver that gives endpoints will do; this one gives what it is told. A session takes the source by
// evenkeel.WithResolver.
func ExampleFromGRPC() {
	registry := manual.NewBuilderWithScheme("registry")
	registry.InitialState(resolver.State{Endpoints: []resolver.Endpoint{
		{Addresses: []resolver.Address{{Addr: "192.0.2.1:35000", ServerName: "node1.example"}}},
		{Addresses: []resolver.Address{{Addr: "node2.example:35000"}}},
	}})
	source, err := discover.FromGRPC(registry, "registry:///servers", discover.GRPCConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = source.Close() }()
	endpoints, err := source.Resolve(context.Background())
	for _, endpoint := range endpoints {
		fmt.Println(endpoint, endpoint.Addrs)
	}
	fmt.Println(err)
	// Output:
	// node1.example:35000 [192.0.2.1:35000]
	// node2.example:35000 []
	// <nil>
}

func ExampleGRPCSource_Watch() {
	registry := manual.NewBuilderWithScheme("registry")
	source, err := discover.FromGRPC(registry, "registry:///servers", discover.GRPCConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = source.Close() }()
	registry.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: "192.0.2.1:35000"}}})
	ctx, cancel := context.WithCancel(context.Background())
	err = source.Watch(ctx, func(endpoints []discover.Endpoint, err error) {
		fmt.Println(endpoints, err)
		if len(endpoints) == 2 {
			cancel()
			return
		}
		registry.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: "192.0.2.1:35000"}, {Addr: "192.0.2.2:35000"}}})
	})
	fmt.Println(err)
	// Output:
	// [192.0.2.1:35000] <nil>
	// [192.0.2.1:35000 192.0.2.2:35000] <nil>
	// context canceled
}

func ExampleNewBuilder() {
	cluster, err := evenkeeltest.New(evenkeeltest.Config{Servers: 3, Plaintext: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = cluster.Close() }()

	builder := discover.NewBuilder("chronicle-srv", func(target resolver.Target) (discover.Resolver, error) {
		return discover.SRV(discover.SRVConfig{Name: target.Endpoint(), NameServer: cluster.DNS.Addr()})
	})
	conn, err := grpc.NewClient("chronicle-srv:///"+cluster.Domain(),
		grpc.WithResolvers(builder),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	reply, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(reply.GetStatus(), err)
	// Output: SERVING <nil>
}

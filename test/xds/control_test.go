// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package xds_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"

	xdstype "github.com/cncf/xds/go/xds/type/v3"
	clusterpb "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointpb "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerpb "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	managerpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	localitypb "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/wrr_locality/v3"
	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	nodeID      = "test"
	serviceName = "service.test"
)

// control is a control plane that runs.
type control struct {
	t       *testing.T
	addr    string
	cache   cache.SnapshotCache
	version int
}

// startControl starts a control plane, which ends with the test.
func startControl(t *testing.T) *control {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &control{t: t, cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil)}
	s := grpc.NewServer()
	discoverypb.RegisterAggregatedDiscoveryServiceServer(s, server.NewServer(ctx, c.cache, nil))
	c.addr = serve(t, s)
	t.Cleanup(cancel) // before the server is stopped, which waits for its streams
	return c
}

// serve serves on a free port until the test ends, and returns the address.
func serve(t *testing.T, s *grpc.Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// resolver makes the resolver of xds:/// for channels that ask this control plane.
func (c *control) resolver() resolver.Builder {
	c.t.Helper()
	bootstrap := fmt.Sprintf(`{"node":{"id":%q},"xds_servers":[{"server_uri":"passthrough:///%s",
		"channel_creds":[{"type":"insecure"}],"server_features":["xds_v3"]}]}`, nodeID, c.addr)
	builder, err := xds.NewXDSResolverWithConfigForTesting([]byte(bootstrap))
	if err != nil {
		c.t.Fatal(err)
	}
	return builder
}

// cluster is servers that a control plane tells together.
type cluster struct {
	name   string
	weight uint32 // of the clusters' calls
	// policy is the one within a locality; empty means that of xDS, round robin. config is its own.
	policy     string
	config     map[string]any
	localities []locality
}

// locality is servers in one place.
type locality struct {
	zone      string
	weight    uint32
	endpoints []endpoint
}

// endpoint is one server.
type endpoint struct {
	addr   string
	weight uint32
}

// tell makes these the clusters of the service.
func (c *control) tell(clusters ...cluster) {
	c.t.Helper()
	c.version++
	resources := map[resource.Type][]types.Resource{
		resource.ListenerType: {listener(c.t)},
		resource.RouteType:    {route(clusters)},
	}
	for _, one := range clusters {
		resources[resource.ClusterType] = append(resources[resource.ClusterType], one.resource(c.t))
		resources[resource.EndpointType] = append(resources[resource.EndpointType], one.assignment(c.t))
	}
	snapshot, err := cache.NewSnapshot(strconv.Itoa(c.version), resources)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cache.SetSnapshot(c.t.Context(), nodeID, snapshot); err != nil {
		c.t.Fatal(err)
	}
}

func ads() *corepb.ConfigSource {
	return &corepb.ConfigSource{ConfigSourceSpecifier: &corepb.ConfigSource_Ads{Ads: &corepb.AggregatedConfigSource{}}}
}

func packed(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	p, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func listener(t *testing.T) *listenerpb.Listener {
	t.Helper()
	manager := packed(t, &managerpb.HttpConnectionManager{
		RouteSpecifier: &managerpb.HttpConnectionManager_Rds{
			Rds: &managerpb.Rds{ConfigSource: ads(), RouteConfigName: "route"},
		},
		HttpFilters: []*managerpb.HttpFilter{{
			Name: "router", ConfigType: &managerpb.HttpFilter_TypedConfig{TypedConfig: packed(t, &routerpb.Router{})},
		}},
	})
	return &listenerpb.Listener{Name: serviceName, ApiListener: &listenerpb.ApiListener{ApiListener: manager}}
}

func route(clusters []cluster) *routepb.RouteConfiguration {
	weighted := &routepb.WeightedCluster{}
	for _, one := range clusters {
		weighted.Clusters = append(weighted.Clusters, &routepb.WeightedCluster_ClusterWeight{
			Name: one.name, Weight: wrapperspb.UInt32(one.weight),
		})
	}
	return &routepb.RouteConfiguration{Name: "route", VirtualHosts: []*routepb.VirtualHost{{
		Domains: []string{"*"},
		Routes: []*routepb.Route{{
			Match: &routepb.RouteMatch{PathSpecifier: &routepb.RouteMatch_Prefix{Prefix: ""}},
			Action: &routepb.Route_Route{Route: &routepb.RouteAction{
				ClusterSpecifier: &routepb.RouteAction_WeightedClusters{WeightedClusters: weighted},
			}},
		}},
	}}}
}

func (c cluster) resource(t *testing.T) *clusterpb.Cluster {
	t.Helper()
	made := &clusterpb.Cluster{
		Name:                 c.name,
		ClusterDiscoveryType: &clusterpb.Cluster_Type{Type: clusterpb.Cluster_EDS},
		EdsClusterConfig:     &clusterpb.Cluster_EdsClusterConfig{EdsConfig: ads()},
	}
	if c.policy == "" {
		return made
	}
	config, err := structpb.NewStruct(c.config)
	if err != nil {
		t.Fatal(err)
	}
	made.LoadBalancingPolicy = policy(t, "wrr_locality", &localitypb.WrrLocality{
		EndpointPickingPolicy: policy(t, "evenkeel", &xdstype.TypedStruct{TypeUrl: "type.googleapis.com/" + c.policy, Value: config}),
	})
	return made
}

func policy(t *testing.T, name string, config proto.Message) *clusterpb.LoadBalancingPolicy {
	t.Helper()
	return &clusterpb.LoadBalancingPolicy{Policies: []*clusterpb.LoadBalancingPolicy_Policy{{
		TypedExtensionConfig: &corepb.TypedExtensionConfig{Name: name, TypedConfig: packed(t, config)},
	}}}
}

func (c cluster) assignment(t *testing.T) *endpointpb.ClusterLoadAssignment {
	t.Helper()
	made := &endpointpb.ClusterLoadAssignment{ClusterName: c.name}
	for _, place := range c.localities {
		told := &endpointpb.LocalityLbEndpoints{
			Locality: &corepb.Locality{Zone: place.zone}, LoadBalancingWeight: wrapperspb.UInt32(place.weight),
		}
		for _, one := range place.endpoints {
			told.LbEndpoints = append(told.LbEndpoints, one.resource(t))
		}
		made.Endpoints = append(made.Endpoints, told)
	}
	return made
}

func (e endpoint) resource(t *testing.T) *endpointpb.LbEndpoint {
	t.Helper()
	host, text, err := net.SplitHostPort(e.addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	address := &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
		Address: host, PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
	return &endpointpb.LbEndpoint{
		HostIdentifier:      &endpointpb.LbEndpoint_Endpoint{Endpoint: &endpointpb.Endpoint{Address: address}},
		LoadBalancingWeight: wrapperspb.UInt32(e.weight),
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/server"
)

// serveMany serves a registry with so many clients that their list is beyond what a stream takes without room.
func serveMany(t *testing.T, config server.Config, registry server.RegistryConfig) *fixture {
	t.Helper()
	registry.StaleAfter = time.Hour
	config.Registry = server.NewRegistry(registry)
	t.Cleanup(config.Registry.Close)
	for i := range listed {
		config.Registry.ConnectForTest(fmt.Sprintf("0b24ca0a-8e5b-4b21-9c8c-%012d", i), "192.0.2.1:1")
	}
	return serveTCP(t, config)
}

const listed = 2000

// countListed asks for the list and returns how many are on it.
func countListed(t *testing.T, conn *grpc.ClientConn, options ...grpc.CallOption) (int, error) {
	t.Helper()
	list, err := clientspb.NewConnectionServiceClient(conn).GetConnectedClients(t.Context(), &emptypb.Empty{}, options...)
	return len(list.GetItems()), err
}

func TestListThatNobodyReadsIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			f := serveMany(t, transport.config, server.RegistryConfig{SendTimeout: 100 * time.Millisecond})
			d := dialDeaf(t, f)
			d.call(t, clientspb.ConnectionService_GetConnectedClients_FullMethodName, &emptypb.Empty{})
			waitEnded(t, "the connection", d.ended)
			eventually(t, "the stall in the numbers", func() bool { return f.Registry().Stats().StalledStreams == 1 })
		})
	}
}

func TestListsOnTheirWayAreBounded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		registry  server.RegistryConfig
		elsewhere codes.Code // what a caller from another address gets
	}{
		{"in all", server.RegistryConfig{MaxLists: 1}, codes.ResourceExhausted},
		{"for one address", server.RegistryConfig{MaxListsPerAddress: 1}, codes.OK},
	}
	for _, transport := range transports {
		for _, tt := range tests {
			t.Run(tt.name+" on "+transport.name, func(t *testing.T) {
				t.Parallel()
				tt.registry.SendTimeout = time.Hour
				f := serveMany(t, transport.config, tt.registry)
				conn, elsewhere := f.grpcConn(t), f.from("127.0.0.2").grpcConn(t)
				d := dialDeaf(t, f)
				d.call(t, clientspb.ConnectionService_GetConnectedClients_FullMethodName, &emptypb.Empty{})
				eventually(t, "the place to be taken", func() bool { return f.Registry().Stats().Lists == 1 })
				if _, err := countListed(t, conn); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("from the same address: got %v, want it refused", err)
				}
				if _, err := countListed(t, elsewhere); status.Code(err) != tt.elsewhere {
					t.Errorf("from another address: got %v, want %v", err, tt.elsewhere)
				}
				if f.Registry().Stats().RefusedLists == 0 {
					t.Error("refused lists: got 0")
				}
				if err := d.conn.Close(); err != nil { // with its list still on its way
					t.Errorf("close: %v", err)
				}
				eventually(t, "a list", func() bool {
					n, err := countListed(t, conn)
					return err == nil && n == listed
				})
			})
		}
	}
}

// What is written of a message is told by its length, which is another one when it is compressed.
func TestListForAClientThatCompresses(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			f := serveMany(t, transport.config, server.RegistryConfig{SendTimeout: time.Second})
			conn := f.grpcConn(t)
			for range 3 {
				if n, err := countListed(t, conn, grpc.UseCompressor(gzip.Name)); err != nil || n != listed {
					t.Errorf("got %d clients and %v, want %d", n, err, listed)
				}
			}
			if got := f.Registry().Stats().StalledStreams; got != 0 {
				t.Errorf("stalled streams: got %d, want none", got)
			}
		})
	}
}

// Whatever else goes on on the connection, lists come whole, and none is taken for one that nobody reads.
func TestManyListsOnOneConnection(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			f := serveMany(t, transport.config, server.RegistryConfig{})
			conn := f.grpcConn(t)
			results := make(chan error, 16)
			for range cap(results) {
				go func() {
					n, err := countListed(t, conn)
					if err == nil && n != listed {
						err = fmt.Errorf("got %d clients", n)
					}
					results <- err
				}()
			}
			for range cap(results) {
				if err := <-results; err != nil {
					t.Errorf("list: %v", err)
				}
			}
		})
	}
}

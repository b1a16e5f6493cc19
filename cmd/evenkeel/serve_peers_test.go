// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// beginServer starts serve in plaintext and returns it with where it listens.
func beginServer(t *testing.T, args ...string) (*running, string) {
	t.Helper()
	r := begin(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--plaintext", "--json"}, args...)...)
	var report serveReport
	if err := json.Unmarshal([]byte(r.line()), &report); err != nil {
		t.Fatal(err)
	}
	return r, report.Listening
}

func TestServeListsTheClientsOfItsPeers(t *testing.T) {
	t.Parallel()
	first, firstAddr := beginServer(t, "--name", "first")
	// Port 1 is nobody's.
	second, secondAddr := beginServer(t, "--name", "second", "--peers", "chronicle://"+firstAddr+",127.0.0.1:1")
	firstConn, _ := connectTo(t, firstAddr)
	secondConn, _ := connectTo(t, secondAddr)
	var header metadata.MD
	list, err := clientspb.NewConnectionServiceClient(secondConn).GetConnectedClients(t.Context(), &emptypb.Empty{}, grpc.Header(&header))
	if err != nil {
		t.Fatal(err)
	}
	var servers []string
	for _, c := range list.GetItems() {
		servers = append(servers, c.GetSiloAddress())
	}
	if len(servers) != 2 || servers[0] != "first" || servers[1] != "second" {
		t.Errorf("servers of the clients: got %q, want first and second", servers)
	}
	if failed := header.Get(contract.PeerErrorHeader); len(failed) != 1 {
		t.Errorf("failed peers: got %q, want the one on port 1", failed)
	}
	for _, conn := range []*grpc.ClientConn{firstConn, secondConn} {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*running{first, second} {
		if _, status := r.end(); status != exitDone {
			t.Errorf("status %d, want %d; %s", status, exitDone, r.stderr)
		}
	}
}

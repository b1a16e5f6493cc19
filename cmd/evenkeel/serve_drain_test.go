// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// connectTo opens a Connect stream to a server that serves in plaintext, and returns it after its first keep-alive.
func connectTo(t *testing.T, addr string) (*grpc.ClientConn, grpc.ServerStreamingClient[clientspb.ConnectionKeepAlive]) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // a test may have closed it
	stream, err := clientspb.NewConnectionServiceClient(conn).Connect(t.Context(), &clientspb.ConnectRequest{ConnectionId: "one"})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return conn, stream
}

func TestServeDrainsWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	r, listening := beginServer(t)
	conn, stream := connectTo(t, listening)
	r.interrupt()
	for {
		if _, err := stream.Recv(); err != nil {
			break
		}
	}
	if got := stream.Trailer().Get(contract.ReasonTrailer); len(got) != 1 || got[0] != contract.ReasonDraining {
		t.Errorf("trailer: got %q, want %q", got, contract.ReasonDraining)
	}
	// The server waits for this.
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if _, status := r.end(); status != exitDone {
		t.Errorf("status %d, want %d", status, exitDone)
	}
	if got, want := r.stderr.String(), "draining (1 connected, 30s at most): a second signal ends it at once"; !strings.Contains(got, want) {
		t.Errorf("standard error: got %q, want %q in it", got, want)
	}
}

func TestServeWithoutADrainEndsAtOnce(t *testing.T) {
	t.Parallel()
	r, listening := beginServer(t, "--drain-limit", "0")
	connectTo(t, listening)
	if _, status := r.end(); status != exitDone || strings.Contains(r.stderr.String(), "draining") {
		t.Errorf("got status %d with %q, want %d without a drain", status, r.stderr, exitDone)
	}
}

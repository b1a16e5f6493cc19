// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
)

const (
	// idleFor is longer than a server waits for a handshake, and for a request once there has been one (10 s both).
	idleFor = 12 * time.Second
	// clientPing is the shortest time between two pings that grpc-go lets a client have.
	clientPing = 10 * time.Second
)

// A gRPC channel on which nothing is called stays up, whether its client pings or not, while a session on the same port
// whose keep-alives nobody answers is ended. The server's settings are those that it ships with, so this sees its short
// timeouts pass; package server proves the long ones in virtual time.
func TestOnePortKeepsIdleChannelsAndEndsSilentSessions(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	s := serve(ctx, t, loopback(1))
	ping := keepalive.ClientParameters{Time: clientPing, Timeout: patience, PermitWithoutStream: true}
	channels := map[string]*idleChannel{
		"without pings": openIdle(ctx, t, s),
		"with pings":    openIdle(ctx, t, s, grpc.WithKeepaliveParams(ping)),
	}
	idle, cancel := context.WithTimeout(ctx, idleFor)
	defer cancel()
	stayUnanswered(ctx, t, s)
	for name, channel := range channels {
		// That the wait for a change ends with its own context is what is hoped for.
		if channel.WaitForStateChange(idle, connectivity.Ready) {
			t.Fatalf("%s: the channel went from ready to %v while it was idle", name, channel.GetState())
		}
	}
	for name, channel := range channels {
		info, err := hostpb.NewServerClient(channel).GetVersionInfo(ctx, &emptypb.Empty{})
		if err != nil || info.GetVersion() == "" {
			t.Errorf("%s: a call on the channel returned %v, %v", name, info, err)
		}
		if got := channel.dials.Load(); got != 1 {
			t.Errorf("%s: the channel has dialled %d times, want once", name, got)
		}
	}
}

// stayUnanswered holds a session without a word until the server ends it, and checks what the server says.
func stayUnanswered(ctx context.Context, t *testing.T, s *serving) {
	t.Helper()
	client := clientspb.NewConnectionServiceClient(openIdle(ctx, t, s))
	stream, err := client.Connect(ctx, &clientspb.ConnectRequest{ConnectionId: "silent"})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	began, keepAlives := time.Now(), 0
	for ; err == nil; keepAlives++ {
		_, err = stream.Recv()
	}
	took := time.Since(began)
	const why = "connection evicted: no keep-alive for 5 s"
	if got := status.Convert(err); got.Code() != codes.Unavailable || got.Message() != why {
		t.Errorf("the session ended with %v, want Unavailable and %q", err, why)
	}
	if got := stream.Trailer().Get(contract.ReasonTrailer); !slices.Equal(got, []string{contract.ReasonEvicted}) {
		t.Errorf("the trailer says %q, want %q", got, contract.ReasonEvicted)
	}
	if took < 5*time.Second || keepAlives < 5 {
		t.Errorf("the session ended after %v with %d keep-alives, want 5 s of them", took, keepAlives)
	}
	awaitCount(ctx, t, 0, s)
}

// idleChannel is a gRPC channel that counts how often it dials.
type idleChannel struct {
	*grpc.ClientConn
	dials atomic.Int32
}

func openIdle(ctx context.Context, t *testing.T, s *serving, options ...grpc.DialOption) *idleChannel {
	t.Helper()
	channel := new(idleChannel)
	options = append(options,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})), //nolint:gosec // a server of this test
		grpc.WithIdleTimeout(0),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			channel.dials.Add(1)
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}))
	conn, err := grpc.NewClient("passthrough:///"+s.Listening, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("close the channel: %v", err)
		}
	})
	channel.ClientConn = conn
	awaitReady(ctx, t, conn)
	return channel
}

// awaitReady connects a channel.
func awaitReady(ctx context.Context, t *testing.T, channel *grpc.ClientConn) {
	t.Helper()
	channel.Connect()
	for state := channel.GetState(); state != connectivity.Ready; state = channel.GetState() {
		if !channel.WaitForStateChange(ctx, state) {
			t.Fatalf("the channel is %v: %v", state, ctx.Err())
		}
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
	"github.com/evenkeel-go/evenkeel/server"
)

// The two kinds of servers.
const (
	kindBare = "bare"
	kindOurs = "evenkeel"
)

// patience is how long a client may be silent.
const patience = time.Minute

// serve runs a server of a kind until its input ends. It prints its address.
func serve(kind string, stdin io.Reader, stdout io.Writer) error {
	certificate, err := devcert.New()
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, listener.Addr())
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	var run func(net.Listener) error
	var stop func()
	switch kind {
	case kindBare:
		s := newBare(config)
		run, stop = s.Serve, s.Stop
	case kindOurs:
		// A busy machine may keep clients from answering in time. What is measured is what sessions cost.
		registry := server.NewRegistry(server.RegistryConfig{StaleAfter: patience})
		defer registry.Close()
		s, err := server.New(server.Config{TLS: config, Registry: registry})
		if err != nil {
			return err
		}
		run, stop = s.Serve, s.Close
	default:
		return fmt.Errorf("there is no kind of server %q", kind)
	}
	ended := make(chan error, 1)
	go func() { ended <- run(listener) }()
	_, err = io.Copy(io.Discard, stdin)
	stop()
	if served := <-ended; served != nil {
		return served
	}
	return err
}

// newBare makes a gRPC server as somebody would write one for these messages alone, with the buffers and timeouts that ours
// has.
func newBare(config *tls.Config) *grpc.Server {
	const buffer = 4 << 10
	s := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(config)),
		grpc.ReadBufferSize(buffer), grpc.WriteBufferSize(buffer),
		grpc.MaxConcurrentStreams(1000),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
	clientspb.RegisterConnectionServiceServer(s, &bare{})
	return s
}

// bare sends keep-alives and takes their answers, and keeps no books.
type bare struct {
	clientspb.UnimplementedConnectionServiceServer
}

// Connect sends a keep-alive at once and each second.
func (*bare) Connect(request *clientspb.ConnectRequest, stream grpc.ServerStreamingServer[clientspb.ConnectionKeepAlive]) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	keepAlive := &clientspb.ConnectionKeepAlive{ConnectionId: request.GetConnectionId()}
	for {
		if err := stream.Send(keepAlive); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// ConnectionKeepAlive takes an answer.
func (*bare) ConnectionKeepAlive(context.Context, *clientspb.ConnectionKeepAlive) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

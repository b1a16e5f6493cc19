// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/dial"
	"github.com/evenkeel-go/evenkeel/internal/extension"
)

// Connections to peers are looked after as a client's are. A peer that comes back is noticed within peerBackoff.
const (
	peerPingInterval = 30 * time.Second
	peerPingTimeout  = 10 * time.Second
	peerBackoff      = 2 * time.Second
)

// peerServer is another server of the cluster, and the connection to it. It is safe for concurrent use.
type peerServer struct {
	addr     string
	conn     *grpc.ClientConn
	bearer   *credential.Bearer                // nil where peers ask for no token
	endpoint atomic.Pointer[discover.Endpoint] // where it was found last
	failing  atomic.Bool
	places   chan struct{} // for questions of callers
}

// answer is what a peer said.
type answer struct {
	items    []*clientspb.ConnectedClient
	instance string // what it calls itself; empty from a stock server
	capacity int    // what it takes in proportion to others; 0 where it does not say
	err      error
}

// newPeer makes the peer of an address. It connects when it is first asked.
func newPeer(addr string, config PeersConfig) (*peerServer, error) {
	p := &peerServer{addr: addr, places: make(chan struct{}, questionsAtATime)}
	transport := insecure.NewCredentials()
	if !config.Plaintext {
		transport = credentials.NewTLS(config.TLS)
	}
	options, err := p.authenticate(config)
	if err != nil {
		return nil, err
	}
	p.conn, err = grpc.NewClient("passthrough:///peer", append(options, // dial knows better
		grpc.WithAuthority(addr),
		grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(p.dial),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: peerBackoff / 4, Multiplier: 1.6, Jitter: 0.2, MaxDelay: peerBackoff},
			MinConnectTimeout: max(peerBackoff, config.Timeout),
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: peerPingInterval, Timeout: peerPingTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxPeerAnswer)),
	)...)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// authenticate makes what the calls to the peer carry. Tokens are asked for where the peer is.
func (p *peerServer) authenticate(config PeersConfig) ([]grpc.DialOption, error) {
	if config.Tokens == nil {
		return nil, nil
	}
	place := credential.Place{URL: "https://" + p.addr + TokenPath, Plaintext: config.Plaintext}
	if config.Plaintext {
		place.URL = "http://" + p.addr + TokenPath
	}
	place.Client = credential.NewHTTPClient(credential.HTTPConfig{
		TLS: config.TLS, Plaintext: config.Plaintext,
		Dial: func(ctx context.Context, _, addr string) (net.Conn, error) { return p.dial(ctx, addr) },
	})
	var err error
	if p.bearer, err = config.Tokens.At(place); err != nil {
		return nil, err
	}
	return p.bearer.DialOptions(), nil
}

// dial connects to where the peer was found last.
func (p *peerServer) dial(ctx context.Context, _ string) (net.Conn, error) {
	return dial.Dialer{}.Dial(ctx, *p.endpoint.Load())
}

// askInTurn asks the peer when there is a place among those that ask it.
func (p *peerServer) askInTurn(ctx context.Context) answer {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
		return p.ask(ctx)
	case <-ctx.Done():
		return answer{err: describe(ctx.Err())}
	}
}

// ask asks the peer for its own clients.
func (p *peerServer) ask(ctx context.Context) answer {
	ctx = metadata.AppendToOutgoingContext(ctx, contract.ScopeHeader, contract.ScopeLocal)
	var header metadata.MD
	list, err := clientspb.NewConnectionServiceClient(p.conn).GetConnectedClients(ctx, &emptypb.Empty{}, grpc.Header(&header))
	if err != nil {
		return answer{err: describe(err)}
	}
	a := answer{items: list.GetItems()}
	if instance := header.Get(contract.InstanceHeader); len(instance) > 0 {
		a.instance = instance[0]
	}
	a.capacity = capacityIn(header)
	return a
}

// describe makes an error of a call fit for people.
func describe(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	return errors.New(s.Code().String() + ": " + s.Message())
}

// capacityIn is what a server says it takes in proportion to others; 0 where it says nothing that can be meant.
func capacityIn(header metadata.MD) int {
	values := header.Get(contract.CapacityHeader)
	if len(values) != 1 {
		return 0
	}
	capacity, err := strconv.Atoi(values[0])
	if err != nil || capacity < 1 || capacity > extension.MaxCapacity {
		return 0
	}
	return capacity
}

// note logs when the peer begins to fail and when it is back, and not what happens in between.
func (p *peerServer) note(err error, logger *slog.Logger) {
	switch failing := err != nil; {
	case p.failing.Swap(failing) == failing:
	case failing:
		logger.Warn("a peer does not answer: its clients are missing from the list", slog.String("peer", p.addr), slog.Any("error", err))
	default:
		logger.Info("a peer answers again", slog.String("peer", p.addr))
	}
}

func (p *peerServer) close() {
	_ = p.conn.Close() // an error would say that it is closed
	if p.bearer != nil {
		p.bearer.Close()
	}
}

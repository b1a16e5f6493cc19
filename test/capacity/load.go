// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// dialledAtATime is how many sessions are opened at the same time.
const dialledAtATime = 32

// load is a number of sessions, each on a connection of its own, whose keep-alives are answered.
type load struct {
	conns   []*grpc.ClientConn
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	answers atomic.Int64
	broken  atomic.Pointer[error] // the first error of a session
}

// open opens sessions with a server, and returns when each has got its first keep-alive. The caller closes it, also when
// there is an error.
func (l *load) open(ctx context.Context, addr string, sessions int) error {
	running, cancel := context.WithCancel(ctx)
	l.cancel = cancel
	l.conns = make([]*grpc.ClientConn, sessions)
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(dialledAtATime)
	for i := range sessions {
		group.Go(func() error {
			if err := l.session(running, addr, i); err != nil {
				return fmt.Errorf("session %d: %w", i, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// session opens one session and goes on answering.
func (l *load) session(ctx context.Context, addr string, number int) error {
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})), //nolint:gosec // a server of this program's
		grpc.WithReadBufferSize(1<<10), grpc.WithWriteBufferSize(1<<10))
	if err != nil {
		return err
	}
	l.conns[number] = conn
	client := clientspb.NewConnectionServiceClient(conn)
	request := &clientspb.ConnectRequest{
		ConnectionId: fmt.Sprintf("%08x-0000-4000-8000-%012x", number, number), ClientVersion: "1.0.0", ProcessId: 1,
		ProcessPath: "/usr/bin/load", MachineName: "machine", ClientType: "Go",
	}
	stream, err := client.Connect(ctx, request)
	if err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	l.wg.Go(func() {
		for err == nil {
			if _, err = client.ConnectionKeepAlive(ctx, &clientspb.ConnectionKeepAlive{ConnectionId: request.GetConnectionId()}); err == nil {
				l.answers.Add(1)
				_, err = stream.Recv()
			}
		}
		if ctx.Err() == nil {
			l.broken.CompareAndSwap(nil, &err)
		}
	})
	return nil
}

// close ends all sessions, and returns what has broken one before.
func (l *load) close() error {
	l.cancel()
	var errs []error
	for _, conn := range l.conns {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	l.wg.Wait()
	if broken := l.broken.Load(); broken != nil {
		errs = append(errs, fmt.Errorf("a session broke: %w", *broken))
	}
	return errors.Join(errs...)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/evenkeel-go/evenkeel/channel"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// kind is one of the two that are compared.
type kind int

const (
	stock kind = iota
	ours
)

const fleetName = "fleet.test"

// fleet is a name server and servers on one port.
type fleet struct {
	dns     *evenkeeltest.DNS
	net     byte
	port    uint16
	servers map[int]*grpc.Server
	running sync.WaitGroup // of the servers
}

// newFleet starts servers 1 to n; the net keeps fleets apart.
func newFleet(network byte, n int) (*fleet, error) {
	dns, err := evenkeeltest.NewDNS(evenkeeltest.DNSConfig{})
	if err != nil {
		return nil, err
	}
	f := &fleet{dns: dns, net: network, servers: make(map[int]*grpc.Server)}
	for i := 1; i <= n; i++ {
		if err := f.start(i); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	return f, nil
}

func (f *fleet) addr(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, f.net, 0, byte(i)}) } //nolint:gosec // small

// start starts a server, which answers every call with its number.
func (f *fleet) start(i int) error {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", netip.AddrPortFrom(f.addr(i), f.port).String())
	if err != nil {
		return err
	}
	f.port = uint16(listener.Addr().(*net.TCPAddr).Port) //nolint:gosec,forcetypeassert // of a listener
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		return stream.SendMsg(wrapperspb.Int32(int32(i))) //nolint:gosec // small
	}))
	f.servers[i] = s
	f.running.Go(func() { _ = s.Serve(listener) }) // ends with Stop
	return nil
}

// set puts servers into DNS, and nothing else.
func (f *fleet) set(servers ...int) {
	addrs := make([]netip.Addr, len(servers))
	for i, s := range servers {
		addrs[i] = f.addr(s)
	}
	f.dns.SetAddrs(fleetName, addrs...)
}

func (f *fleet) close() error {
	for _, s := range f.servers {
		s.Stop()
	}
	f.running.Wait()
	return f.dns.Close()
}

// client is a channel to a fleet.
type client struct {
	*grpc.ClientConn

	keep *channel.Channel // nil for stock
}

func (f *fleet) dial(k kind) (*client, error) {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	c := &client{}
	if k == stock {
		options = append(options, grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	} else {
		keep, err := channel.New(channel.Config{})
		if err != nil {
			return nil, err
		}
		c.keep = keep
		options = append(options, keep.DialOptions()...)
	}
	conn, err := grpc.NewClient(fmt.Sprintf("dns://%s/%s:%d", f.dns.Addr(), fleetName, f.port), options...)
	c.ClientConn = conn
	return c, err
}

func (c *client) close() {
	_ = c.Close() // the first and only call
	if c.keep != nil {
		_ = c.keep.Close()
	}
}

// call returns the number of the server that answered.
func (c *client) call() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var number wrapperspb.Int32Value
	err := c.Invoke(ctx, "/test.Who/Call", &emptypb.Empty{}, &number)
	return int(number.GetValue()), err
}

// traffic is calls that are made steadily, about 400 a second.
type traffic struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	began   time.Time

	made, failed, fresh atomic.Int64 // fresh: answered by a server above the limit
	first               atomic.Int64 // when the first fresh one came, in nanoseconds since began
}

func (c *client) traffic(limit int) *traffic {
	ctx, cancel := context.WithCancel(context.Background())
	t := &traffic{cancel: cancel, began: time.Now()}
	for range 4 {
		t.running.Go(func() {
			ticker := time.NewTicker(10 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
					t.note(c, limit)
				}
			}
		})
	}
	return t
}

func (t *traffic) note(c *client, limit int) {
	number, err := c.call()
	t.made.Add(1)
	switch {
	case err != nil:
		t.failed.Add(1)
	case number > limit:
		t.fresh.Add(1)
		t.first.CompareAndSwap(0, int64(time.Since(t.began)))
	}
}

func (t *traffic) stop() {
	t.cancel()
	t.running.Wait()
}

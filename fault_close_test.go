// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// hungStep is a step of an attempt that does not end, and how to see that it has begun.
type hungStep struct {
	name    string
	servers int
	fault   evenkeeltest.Fault
	dns     evenkeeltest.DNSFault
	onReady func(context.Context, grpc.ClientConnInterface) error
	begun   func(c *evenkeeltest.Cluster) bool
}

func accepted(c *evenkeeltest.Cluster) bool { return c.Servers[0].AcceptedConnections() > 0 }
func counted(c *evenkeeltest.Cluster) bool  { return c.Count() > 0 }

func hungSteps(free <-chan struct{}) []hungStep {
	hung := evenkeeltest.HTTPFault{Hang: true}
	return []hungStep{
		{
			name: "lookup", servers: 1, dns: evenkeeltest.DNSFault{Silent: true},
			begun: func(c *evenkeeltest.Cluster) bool { return c.DNS.Count("_chronicle._tcp."+c.Domain(), "SRV") > 0 },
		},
		{name: "probe", servers: 2, fault: evenkeeltest.Fault{Count: hung}, begun: accepted},
		{name: "probe of a silent server", servers: 2, fault: evenkeeltest.Fault{Silent: true}, begun: accepted},
		{name: "reserve", servers: 2, fault: evenkeeltest.Fault{Reserve: hung}, begun: accepted},
		{name: "handshake", servers: 1, fault: evenkeeltest.Fault{Silent: true}, begun: accepted},
		{name: "HTTP/2", servers: 1, fault: evenkeeltest.Fault{SilentAfterTLS: true}, begun: accepted},
		{name: "Connect", servers: 1, fault: evenkeeltest.Fault{NoKeepAlives: true}, begun: counted},
		{name: "first answer", servers: 1, fault: evenkeeltest.Fault{HangAnswers: true}, begun: counted},
		{
			name: "callback that honours its context", servers: 1, begun: counted,
			onReady: func(ctx context.Context, _ grpc.ClientConnInterface) error { <-ctx.Done(); return ctx.Err() },
		},
		{
			name: "callback that ignores its context", servers: 1, begun: counted,
			onReady: func(context.Context, grpc.ClientConnInterface) error { <-free; return nil },
		},
	}
}

// Close ends each step within 100 ms. These tests do not run beside others, and a machine that is busy all the same gets
// three tries.
func TestCloseEndsAHungStepAtOnce(t *testing.T) { //nolint:paralleltest // it measures short times
	free := make(chan struct{})
	defer close(free)
	for _, step := range hungSteps(free) {
		t.Run(step.name, func(t *testing.T) {
			var took time.Duration
			for range 3 {
				if took = closeDuring(t, step); took <= 100*time.Millisecond {
					return
				}
			}
			t.Errorf("Close took %v, want 100ms at most", took)
		})
	}
}

// closeDuring closes a Conn in the middle of a step and says how long that took.
func closeDuring(t *testing.T, step hungStep) time.Duration {
	t.Helper()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: step.servers})
	for _, s := range c.Servers {
		s.SetFault(step.fault)
	}
	if err := c.DNS.SetFault("", "", step.dns); err != nil {
		t.Fatal(err)
	}
	connection := c.ConnectionString()
	if step.dns.Silent {
		connection = c.SRVConnectionString()
	}
	opts := []evenkeel.Option{
		evenkeel.WithTLS(c.TLS()),
		evenkeel.WithLeastConnections(balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter}),
	}
	if step.onReady != nil {
		opts = append(opts, evenkeel.WithOnReady(step.onReady))
	}
	conn, err := evenkeel.New(connection, opts...)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the step to begin", func() bool { return step.begun(c) })
	pass(30 * time.Millisecond) // and to hang
	if got := conn.State(); got != evenkeel.StateConnecting {
		t.Errorf("state is %v, want connecting", got)
	}
	began := time.Now()
	if err := conn.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	return time.Since(began)
}

func testCloseWhileCallsOnALeftSessionGoOn(t *testing.T) {
	live(t)
	var calls program
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2, Services: calls.register})
	conn, _ := meet(t, c, c.ConnectionString()+"?loadBalancer=round-robin")
	stream := watch(t.Context(), t, conn)
	if err := conn.Reselect(within(t)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := conn.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if d := time.Since(began); d > slack {
		t.Errorf("Close took %v", d)
	}
	if err := stream.RecvMsg(nil); err == nil {
		t.Error("a stream outlived Close")
	}
}

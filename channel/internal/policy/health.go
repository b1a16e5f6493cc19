// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/health" // without it a health check that is asked for would not happen
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// To a policy, a server without a health service looks like a healthy one (gRFC A17), and grpc-go only logs it. So where
// somebody wants to know, the first ready connection of each endpoint is asked once more, until one is found.

// probeHealthLocked asks an endpoint that has become ready.
func (p *policy) probeHealthLocked(c *child) {
	if p.hooks == nil || p.hooks.NoHealth == nil || p.noHealthTold || c.probed {
		return
	}
	c.probed = true
	probe := &healthProbe{policy: p, addr: c.addr, service: p.hooks.HealthService}
	sc := c.sc
	p.work.do(func() { sc.GetOrBuildProducer(probe) })
}

// tellNoHealth calls the hook, once.
func (p *policy) tellNoHealth(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hooks := p.hooks
	if p.noHealthTold || hooks == nil || hooks.NoHealth == nil {
		return
	}
	p.noHealthTold = true
	p.tellLocked(hooks, func() { hooks.NoHealth(addr) })
}

// healthProbe asks through a subchannel, as what grpc-go calls a producer.
type healthProbe struct {
	policy  *policy
	addr    string
	service string
}

// Build begins to ask. The function it returns is called when the connection is lost or given up.
func (h *healthProbe) Build(subConn any) (balancer.Producer, func()) {
	conn, ok := subConn.(grpc.ClientConnInterface)
	if !ok {
		return h, func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.policy.probes.Add(1)
	go func() {
		defer h.policy.probes.Done()
		defer cancel()
		if status.Code(h.ask(ctx, conn)) == codes.Unimplemented {
			h.policy.tellNoHealth(h.addr)
		}
	}()
	return h, cancel
}

// ask returns when the server has told the health of the service, or why it has not.
func (h *healthProbe) ask(ctx context.Context, conn grpc.ClientConnInterface) error {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, healthpb.Health_Watch_FullMethodName)
	if err != nil {
		return err
	}
	// An error of sending is io.EOF, and its cause is what receiving returns.
	_ = stream.SendMsg(&healthpb.HealthCheckRequest{Service: h.service})
	_ = stream.CloseSend()
	return stream.RecvMsg(new(healthpb.HealthCheckResponse))
}

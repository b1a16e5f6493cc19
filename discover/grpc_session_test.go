// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/resolver"
	_ "google.golang.org/grpc/resolver/dns" // registers "dns"
	"google.golang.org/grpc/resolver/manual"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// A session follows what a grpc-go resolver pushes, and is not held up by its errors.
func TestASessionFedByAGRPCResolver(t *testing.T) {
	t.Parallel()
	ctx := lateContext(t)
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2, Plaintext: true})
	first, second := cluster.Servers[0], cluster.Servers[1]
	builder := manual.NewBuilderWithScheme("registry")
	hints := make(chan struct{}, 64)
	builder.ResolveNowCallback = func(resolver.ResolveNowOptions) { hints <- struct{}{} }
	builder.InitialState(stateOf(first.Addr()))
	source := fromGRPC(t, builder, "registry:///servers", discover.GRPCConfig{})
	t.Cleanup(func() { closeSource(t, source) })

	events := make(chan evenkeel.Event, 256)
	conn, err := evenkeel.Dial(ctx, "chronicle://unused.test", evenkeel.WithPlaintext(), evenkeel.WithResolver(source),
		evenkeel.WithEvents(func(e evenkeel.Event) { events <- e }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if got := conn.Server().Addr(); got != first.Addr() {
		t.Errorf("connected to %s, want %s", got, first.Addr())
	}

	builder.UpdateState(stateOf(second.Addr()))
	builder.CC().ReportError(errPlanned)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitEvent(ctx, t, events, evenkeel.EventLost)
	resolved := awaitEvent(ctx, t, events, evenkeel.EventResolved)
	if _, stale := errors.AsType[*discover.StaleError](resolved.Err); !stale || !errors.Is(resolved.Err, errPlanned) {
		t.Errorf("resolved with %v, want a *StaleError of the resolver's error", resolved.Err)
	}
	if connected := awaitEvent(ctx, t, events, evenkeel.EventConnected); connected.Endpoint.Addr() != second.Addr() {
		t.Errorf("reconnected to %s, want %s", connected.Endpoint, second.Addr())
	}
	select {
	case <-hints:
	case <-ctx.Done():
		t.Error("the reconnect gave the resolver no hint")
	}
}

func awaitEvent(ctx context.Context, t *testing.T, events <-chan evenkeel.Event, kind evenkeel.EventKind) evenkeel.Event {
	t.Helper()
	for {
		select {
		case e := <-events:
			if e.Kind == kind {
				return e
			}
		case <-ctx.Done():
			t.Fatalf("no event %v came", kind)
		}
	}
}

// grpc-go's own resolver of names, against a real name server.
func TestFromGRPCWithTheDNSResolver(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs("servers.test", addr("10.0.0.1"), addr("10.0.0.2"), addr("2001:db8::1"))
	setFault(t, dns, "broken.test", "", evenkeeltest.DNSFault{Code: "SERVFAIL"})
	dnsSource := func(t *testing.T, endpoint string) *discover.GRPCSource {
		t.Helper()
		source := fromGRPC(t, resolver.Get("dns"), "dns://"+dns.Addr()+"/"+endpoint, discover.GRPCConfig{})
		t.Cleanup(func() { closeSource(t, source) })
		return source
	}
	t.Run("a name", func(t *testing.T) {
		t.Parallel()
		endpoints, err := dnsSource(t, "servers.test.:35000").Resolve(lateContext(t))
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(endpoints, func(a, b discover.Endpoint) int { return a.Addrs[0].Compare(b.Addrs[0]) })
		wantHosts(t, endpoints, "10.0.0.1:35000", "10.0.0.2:35000", "[2001:db8::1]:35000")
		if got := dns.Count("_grpc_config.servers.test", "TXT"); got > 0 {
			t.Errorf("asked for a service config %d times, want never", got)
		}
	})
	t.Run("an address", func(t *testing.T) {
		t.Parallel()
		endpoints, err := dnsSource(t, "[::1]:35000").Resolve(lateContext(t))
		if err != nil {
			t.Fatal(err)
		}
		wantHosts(t, endpoints, "[::1]:35000")
	})
	t.Run("no such name", func(t *testing.T) {
		t.Parallel()
		_, err := dnsSource(t, "absent.test.:35000").Resolve(lateContext(t))
		wantSourceError(t, err, discover.ErrNoRecords) // it hides the difference from grpc-go, and from us
	})
	t.Run("name server failed", func(t *testing.T) {
		t.Parallel()
		_, err := dnsSource(t, "broken.test.:35000").Resolve(lateContext(t))
		wantSourceError(t, err, discover.ErrServerFailed)
	})
	t.Run("a target that it refuses", func(t *testing.T) {
		t.Parallel()
		_, err := dnsSource(t, "").Resolve(lateContext(t))
		wantSourceError(t, err, discover.ErrServerFailed)
	})
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// Endpoints that share a name are told apart by their hosts, which are in no certificate: what probes, sessions and calls
// verify is the name.
func TestTheServerNameOfAnEndpointIsVerified(t *testing.T) {
	t.Parallel()
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1})
	at := netip.MustParseAddrPort(cluster.Servers[0].Addr())
	// Two candidates, so that they are probed. Documentation addresses (RFC 5737) are in nobody's certificate.
	named := func(name string) discover.Resolver {
		return discover.Static(
			discover.Endpoint{Host: "192.0.2.1", Port: 35000, ServerName: name, Addrs: []netip.AddrPort{at}},
			discover.Endpoint{Host: "192.0.2.2", Port: 35000, ServerName: name, Addrs: []netip.AddrPort{at}})
	}
	for name, verified := range map[string]bool{cluster.Servers[0].Name(): true, "other.test": false, "": false} {
		t.Run("as "+name, func(t *testing.T) {
			t.Parallel()
			probed := make(chan evenkeel.Event, 1)
			opts := []evenkeel.Option{
				evenkeel.WithTLS(cluster.TLS()), evenkeel.WithResolver(named(name)),
				evenkeel.WithEvents(func(e evenkeel.Event) {
					if e.Kind == evenkeel.EventSelected {
						select {
						case probed <- e:
						default:
						}
					}
				}),
			}
			if !verified {
				ctx, cancel := context.WithTimeout(within(t), 2*time.Second)
				defer cancel()
				conn, err := evenkeel.Dial(ctx, "chronicle://unused.test", opts...)
				if err == nil {
					_ = conn.Close()
				}
				if err == nil || !strings.Contains(err.Error(), "certificate") {
					t.Errorf("got %v, want the certificate refused", err)
				}
				return
			}
			conn := dial(t, "chronicle://unused.test", opts...)
			if got := conn.Server(); !strings.HasPrefix(got.Host, "192.0.2.") || got.VerifyName() != name {
				t.Errorf("connected to %v, verified as %s", got, got.VerifyName())
			}
			if _, err := version(within(t), conn); err != nil {
				t.Errorf("a call failed: %v", err)
			}
			observations := (<-probed).Observations
			for _, o := range observations {
				if o.Err != nil {
					t.Errorf("the probe of %v failed: %v", o.Endpoint, o.Err)
				}
			}
			if len(observations) != 2 {
				t.Errorf("%d servers were probed, want 2", len(observations))
			}
		})
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"

	"github.com/evenkeel-go/evenkeel/channel"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// laterPolicy replaces the service config of a channel, as a dial option that comes later does.
func laterPolicy(name string) grpc.DialOption {
	return grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + name + `":{}}]}`)
}

func TestBackupsGetNoCallUnderAPolicyThatKnowsNone(t *testing.T) {
	t.Parallel()
	foreign := quick()
	foreign.Policy = "round_robin"
	for name, test := range map[string]struct {
		config  channel.Config
		options []grpc.DialOption
	}{
		"of the config":           {foreign, nil},
		"of a later dial option":  {quick(), []grpc.DialOption{laterPolicy("round_robin")}},
		"of the dial options all": {quick(), []grpc.DialOption{laterPolicy(channel.Random), laterPolicy("round_robin")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 3)
			f.name(1, 2, 3)
			f.dns.SetSRV(srvName, f.record(1, 0, 0), f.record(2, 0, 0), f.record(3, 1, 0))
			heard := hear(&test.config)
			conn := dial(t, open(t, test.config), f.srvTarget(), test.options...)
			reaches(t, conn, f.at(1), f.at(2)) // none of the first calls is at the backup either
			heard.resolved(t, 3)
			if got := tally(t, conn, 40); got[f.at(3)] != 0 {
				t.Errorf("got %v, want no call at the backup %s", got, f.at(3))
			}
			if got := f.server[3].calls.Load(); got != 0 {
				t.Errorf("the backup got %d calls in all, want none", got)
			}
		})
	}
}

func TestBackupsServeUnderALaterPolicyThatKnowsThem(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.name(1, 2)
	f.dns.SetSRV(srvName, f.record(1, 0, 0), f.record(2, 1, 0))
	config := quick()
	config.Policy = "round_robin"
	conn := dial(t, open(t, config), f.srvTarget(), laterPolicy(channel.Random))
	reaches(t, conn, f.at(1))
	f.stop(1)
	eventually(t, conn, f.at(2))
}

func TestPolicyOfDNSIsKnownToBeAtWork(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	config := quick()
	config.Policy = channel.Random
	c := open(t, config)
	conn := dial(t, c, f.target())
	reaches(t, conn, f.at(1), f.at(2))
	wantOurs(t, c, true)
	f.setTXT(`grpc_config=[{"serviceConfig":{"loadBalancingConfig":[{"round_robin":{}}]}}]`)
	wantOurs(t, c, false)
	f.dns.Remove(txtName)
	wantOurs(t, c, true)
	reaches(t, conn, f.at(1), f.at(2))
}

// wantOurs waits until the channel knows which kind of policy is at work.
func wantOurs(t *testing.T, c *channel.Channel, want bool) {
	t.Helper()
	for ctx := testContext(t); c.AtWorkForTest().Ours != want; tick(t) {
		if ctx.Err() != nil {
			t.Fatalf("got %+v, want a policy of ours to be at work: %t", c.AtWorkForTest(), want)
		}
	}
}

// TestFloorHoldsUnderALaterPolicy has one endpoint that fails again and again, each time with a hint.
func TestFloorHoldsUnderALaterPolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"round_robin", channel.RoundRobin} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, firstServer)
				b.put(nil, firstServer, secondServer)
				often := backoff.Config{BaseDelay: 300 * time.Millisecond, Multiplier: 1, MaxDelay: 300 * time.Millisecond}
				conn, c := b.dial(channel.Config{Interval: time.Minute, MinInterval: 20 * time.Second}, laterPolicy(policy),
					grpc.WithConnectParams(grpc.ConnectParams{Backoff: often}))
				defer func() { _ = errors.Join(conn.Close(), c.Close()) }()
				tally(t, conn, 1)
				time.Sleep(19 * time.Second)
				if got := b.lookups(); len(got) > 1 {
					t.Errorf("got lookups at %v, want one in 19 s with a floor of 20 s and an endpoint that serves", got)
				}
				time.Sleep(2 * time.Second)
				if got := b.lookups(); len(got) != 2 {
					t.Errorf("got lookups at %v, want a second one for the hints when the floor ends", got)
				}
			})
		})
	}
}

func TestAPolicyThatIsReplacedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.stop(1, 2)
	config := quick()
	meters := newMeters(&config)
	c := open(t, config)
	conn := dial(t, c, f.target())
	conn.Connect()
	for ctx := testContext(t); !c.AtWorkForTest().Unusable; tick(t) {
		if ctx.Err() != nil {
			t.Fatal("nothing is usable, and the channel does not know it")
		}
	}
	f.setTXT(`grpc_config=[{"serviceConfig":{"loadBalancingConfig":[{"round_robin":{}}]}}]`)
	wantOurs(t, c, false)
	if got := c.AtWorkForTest(); got.Unusable {
		t.Errorf("got %+v, want nothing known of the endpoints of a policy that says nothing", got)
	}
	meters.wants(t, f.target(), nil)
	f.start(1)
	f.start(2)
	f.setTXT(`grpc_config=[{"serviceConfig":{"loadBalancingConfig":[{"` + channel.Random + `":{}}]}}]`)
	meters.wants(t, f.target(), map[string]float64{"ready": 2})
	// From one of ours to another, while an endpoint goes.
	f.set(2)
	f.setTXT(`grpc_config=[{"serviceConfig":{"loadBalancingConfig":[{"` + channel.LeastRequest + `":{}}]}}]`)
	meters.wants(t, f.target(), map[string]float64{"ready": 1})
	if got := c.AtWorkForTest(); got.Unusable || !got.Ours {
		t.Errorf("got %+v, want usable endpoints of a policy of ours", got)
	}
}

// never is how grpc-go tries a failed endpoint again by itself.
func never() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Hour, Multiplier: 1, MaxDelay: time.Hour}})
}

// failing makes a channel to two servers of which the second cannot be reached for now.
func failing(t *testing.T, f *fleet) *grpc.ClientConn {
	t.Helper()
	f.stop(2)
	config := quick()
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target(), never())
	reaches(t, conn, f.at(1))
	heard.wait(t, "a failure", func() bool { return stateOf(heard, f.at(2)) == connectivity.TransientFailure })
	f.start(2)
	return conn
}

func TestFailedEndpointIsTriedAgainWithEachAnswer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	conn := failing(t, f) // the answers are the same all the time
	reaches(t, conn, f.at(1), f.at(2))
}

func TestFailedEndpointIsTriedAgainWhenTheSetChanges(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.set(1, 2)
	conn := failing(t, f)
	f.set(1, 2, 3)
	reaches(t, conn, f.at(1), f.at(2), f.at(3))
}

func TestCallsThatFailTellOfAFailedLookupToo(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	config := quick()
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1))
	if err := f.dns.SetFault("", "", evenkeeltest.DNSFault{Code: "REFUSED"}); err != nil {
		t.Fatal(err)
	}
	heard.wait(t, "a failed lookup", func() bool { return heard.resolutions[len(heard.resolutions)-1].Err != nil })
	tally(t, conn, 10)
	f.stop(1)
	ctx := testContext(t)
	failure := func() string {
		_, err := who(ctx, conn)
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for text := failure(); !strings.Contains(text, "refused") || !strings.Contains(text, "REFUSED"); text = failure() {
		if ctx.Err() != nil {
			t.Fatalf("got %q, want a connection that was refused and the code of the name server", text)
		}
		tick(t)
	}
	f.dns.ClearFaults()
	for text := failure(); !strings.Contains(text, "refused") || strings.Contains(text, "REFUSED"); text = failure() {
		if ctx.Err() != nil {
			t.Fatalf("got %q, want nothing of the lookup that failed once", text)
		}
		tick(t)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// aged has a server end each connection in good order when it is so old.
func aged(age time.Duration) grpc.ServerOption {
	return grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: age, MaxConnectionAgeGrace: time.Second})
}

func TestShortLivedConnectionsFailNoCall(t *testing.T) {
	ages := []struct {
		age     time.Duration
		longest time.Duration // that a call may take
		dials   int           // in 20 s
	}{
		{age: 5 * time.Millisecond, longest: 1100 * time.Millisecond, dials: 32},
		{age: 100 * time.Millisecond, longest: 1100 * time.Millisecond, dials: 30},
		{age: 400 * time.Millisecond, longest: 50 * time.Millisecond, dials: 60},
		{age: 2 * time.Second, longest: 50 * time.Millisecond, dials: 14},
	}
	for _, test := range ages {
		t.Run(test.age.String(), func(t *testing.T) {
			bubbles(t, func(t *testing.T, w *world, name string) {
				w.start("a", aged(test.age))
				c := w.client(name, "{}")
				c.update("a")
				longest := time.Duration(0)
				for end := time.Now().Add(20 * time.Second); time.Now().Before(end); pass(10 * time.Millisecond) {
					begin := time.Now()
					if _, err := c.who(); err != nil {
						t.Fatalf("a call failed: %v", err)
					}
					longest = max(longest, time.Since(begin))
				}
				if longest > test.longest {
					t.Errorf("a call took %v, want at most %v", longest, test.longest)
				}
				if got := w.dialled("a"); got > test.dials {
					t.Errorf("dialled %d times in 20 s, want at most %d", got, test.dials)
				}
			})
		})
	}
}

func TestShortLivedConnectionsOfAllEndpointsFailNoCall(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		for _, addr := range []string{"a", "b", "c"} {
			w.start(addr, aged(50*time.Millisecond))
		}
		c := w.client(name, "{}")
		c.update("a", "b", "c")
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); pass(10 * time.Millisecond) {
			begin := time.Now()
			if _, err := c.who(); err != nil {
				t.Fatalf("a call failed: %v", err)
			}
			if took := time.Since(begin); took > 1100*time.Millisecond {
				t.Fatalf("a call took %v, want at most a second", took)
			}
		}
	})
}

func TestFlappingEndpointIsWaitedForWhenTheOthersGo(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		steady := w.start("a")
		w.start("b", aged(50*time.Millisecond))
		c := w.client(name, "{}")
		c.update("a", "b")
		pass(40 * time.Second) // the pauses have grown to 12.8 s
		if got := w.dialled("b"); got > 15 {
			t.Errorf("dialled %d times in 40 s while another endpoint was ready, want at most 15", got)
		}
		steady.stop()
		synctest.Wait() // a call that is on its way to it would be lost with it
		begin := time.Now()
		got, err := c.who()
		if took := time.Since(begin); err != nil || got != "b" || took > 1100*time.Millisecond {
			t.Errorf("got %q, %v after %v, want an answer of b within a second", got, err, took)
		}
	})
}

// TestConnectionsClosedBeforeTheyAreReadyFailCalls: a server that accepts and says nothing is no server.
func TestConnectionsClosedBeforeTheyAreReadyFailCalls(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		dial := func(ctx context.Context, addr string) (net.Conn, error) {
			_, _ = w.dial(ctx, addr) // counts
			client, server := net.Pipe()
			_ = server.Close()
			return client, nil
		}
		c := w.client(name, "{}", grpc.WithContextDialer(dial))
		c.update("a")
		pass(30 * time.Second)
		begin := time.Now()
		_, err := c.who()
		if took := time.Since(begin); status.Code(err) != codes.Unavailable || took != 0 {
			t.Errorf("got %v after %v, want Unavailable at once", err, took)
		}
		if err != nil && !strings.Contains(err.Error(), "no endpoint is usable: a: ") {
			t.Errorf("got %v, want an error that names the endpoint", err)
		}
	})
}

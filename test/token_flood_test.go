// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend

package test_test

import (
	"context"
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	client "github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/contract/hostpb"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/server"
)

var tokenFloodFor = flag.Duration("token-flood", 10*time.Second, "how long the flood of bad tokens lasts")

const (
	goodRate = 200  // calls a second with a good token
	badRate  = 1000 // calls a second with a bad one
	goodP99  = 20 * time.Millisecond
)

// TestGoodCallsAreServedBesideAFloodOfBadTokens makes calls at a steady pace, late ones counted from when they were due,
// while others try tokens that the server never gave.
func TestGoodCallsAreServedBesideAFloodOfBadTokens(t *testing.T) {
	alone(t)
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 1, Auth: &server.AuthConfig{
		Clients: []server.AuthClient{{ID: "app", Secret: connstring.NewSecret("secret")}},
	}})
	good, err := client.Dial(within(t), cluster.ConnectionString(), client.WithTLS(cluster.TLS()))
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close() //nolint:errcheck // it returns nil
	bad, err := grpc.NewClient("passthrough:///"+cluster.Servers[0].Addr(), grpc.WithTransportCredentials(credentials.NewTLS(cluster.TLS())))
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close() //nolint:errcheck // nothing was sent that matters
	ctx, cancel := context.WithTimeout(t.Context(), *tokenFloodFor)
	defer cancel()
	var flood sync.WaitGroup
	var refused, others atomic.Int64
	flood.Go(func() {
		atPace(ctx, badRate, func(time.Time) {
			call := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer nobody-gave-this-token")
			switch _, err := hostpb.NewServerClient(bad).GetVersionInfo(call, &emptypb.Empty{}); {
			case status.Code(err) == codes.Unauthenticated:
				refused.Add(1)
			default:
				others.Add(1)
			}
		})
	})
	var mu sync.Mutex
	var took []time.Duration
	atPace(ctx, goodRate, func(due time.Time) {
		_, err := hostpb.NewServerClient(good).GetVersionInfo(t.Context(), &emptypb.Empty{})
		d := time.Since(due)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("a good call: %v", err)
		}
		took = append(took, d)
	})
	flood.Wait()
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("%d good calls, median %v, p99 %v, longest %v; %d bad tokens refused", len(took), took[len(took)/2], p99, took[len(took)-1], refused.Load())
	if p99 > goodP99 {
		t.Errorf("p99 of the good calls is %v, want %v at most", p99, goodP99)
	}
	if want := int64(tokenFloodFor.Seconds() * badRate * 0.9); refused.Load() < want || others.Load() > 0 {
		t.Errorf("%d bad tokens were refused and %d calls with them ended otherwise, want %d and 0", refused.Load(), others.Load(), want)
	}
	if got := cluster.Servers[0].Count(); got != 1 {
		t.Errorf("the count is %d, want the one good client", got)
	}
}

// atPace calls f at a rate a second until ctx ends, each in a goroutine of its own, and waits for all of them. f is told when
// it was due.
func atPace(ctx context.Context, rate int, f func(due time.Time)) {
	var all sync.WaitGroup
	defer all.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	interval := time.Second / time.Duration(rate)
	for due := time.Now(); ; due = due.Add(interval) {
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
			all.Go(func() { f(due) })
		case <-ctx.Done():
			return
		}
	}
}

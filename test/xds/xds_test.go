// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package xds_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/evenkeel-go/evenkeel/channel"
)

const (
	// patience bounds every wait. Nothing takes as long unless it is broken.
	patience = 30 * time.Second
	// canaryCalls show a share to within canaryLimit. A share that is drawn at random is off by 0.4 % of these as a rule, so
	// that 2 % are five times as much.
	canaryCalls = 5000
	canaryLimit = 0.02
	// manyCallers call at the same time. Least request gives weights their share exactly only to one caller: with several it
	// looks at the calls in flight, which is what it is for.
	manyCallers = 4
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// startServer starts a server, which ends with the test, answers calls of Who with its number and leaves all others open.
func startServer(t *testing.T, number int32) string {
	t.Helper()
	return serve(t, grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		if err := stream.SendMsg(wrapperspb.Int32(number)); err != nil {
			return err
		}
		if method, ok := grpc.MethodFromServerStream(stream); !ok || method == "/test.Test/Who" {
			return nil
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	})))
}

// dial makes a channel with our options beside the resolver of a control plane.
func dial(t *testing.T, c *control, target string) *grpc.ClientConn {
	t.Helper()
	keep, err := channel.New(channel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	options := append(keep.DialOptions(), grpc.WithResolvers(c.resolver()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), keep.Close()); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// who returns the number of the server that answers.
func who(ctx context.Context, conn *grpc.ClientConn) (int32, error) {
	var number wrapperspb.Int32Value
	err := conn.Invoke(ctx, "/test.Test/Who", &emptypb.Empty{}, &number)
	return number.GetValue(), err
}

// share makes calls, by callers that call at the same time, and returns what part of them each server has answered.
func share(ctx context.Context, t *testing.T, conn *grpc.ClientConn, callers int) map[int32]float64 {
	t.Helper()
	var (
		mu     sync.Mutex
		counts = make(map[int32]float64)
		group  sync.WaitGroup
	)
	for range callers {
		group.Go(func() {
			for range canaryCalls / callers {
				number, err := who(ctx, conn)
				if err != nil {
					t.Errorf("call: %v", err)
					return
				}
				mu.Lock()
				counts[number] += 1. / canaryCalls
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return counts
}

// awaitAll waits until each of the servers answers: then all are ready.
func awaitAll(ctx context.Context, t *testing.T, conn *grpc.ClientConn, servers ...int32) {
	t.Helper()
	seen := make(map[int32]bool)
	for {
		number, err := who(ctx, conn)
		if err != nil {
			t.Fatalf("wait for servers %v, of which %v have answered: %v", servers, seen, err)
		}
		seen[number] = true
		missing := 0
		for _, n := range servers {
			if !seen[n] {
				missing++
			}
		}
		if missing == 0 {
			return
		}
	}
}

// checkShare checks that servers have their shares.
func checkShare(t *testing.T, what string, got, want map[int32]float64) {
	t.Helper()
	for server, share := range want {
		t.Logf("%s: server %d has %.1f %% of the calls, %.0f %% are its due", what, server, 100*got[server], 100*share)
		if math.Abs(got[server]-share) > canaryLimit {
			t.Errorf("%s: server %d has %.3f of the calls, want %.3f within %.3f", what, server, got[server], share, canaryLimit)
		}
	}
}

func policies() []string { return []string{channel.RoundRobin, channel.Random, channel.LeastRequest} }

// Of two clusters with weights the canary gets its share, whatever the policy within.
func TestWeightedClustersAreRespected(t *testing.T) {
	t.Parallel()
	for _, policy := range append(policies(), "") {
		name := policy
		if name == "" {
			name = "the policy of xDS"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			c := startControl(t)
			stable := []endpoint{{startServer(t, 1), 1}, {startServer(t, 2), 1}, {startServer(t, 3), 1}}
			canary := []endpoint{{startServer(t, 4), 1}}
			c.tell(
				cluster{name: "stable", weight: 90, policy: policy, localities: []locality{{"a", 1, stable}}},
				cluster{name: "canary", weight: 10, policy: policy, localities: []locality{{"a", 1, canary}}},
			)
			conn := dial(t, c, "xds:///"+serviceName)
			awaitAll(ctx, t, conn, 1, 2, 3, 4)
			got := share(ctx, t, conn, manyCallers)
			checkShare(t, "clusters", map[int32]float64{1: got[1] + got[2] + got[3], 4: got[4]}, map[int32]float64{1: .9, 4: .1})
		})
	}
}

// Of two endpoints with weights the canary gets its share: the weights of the control plane reach our policies.
func TestWeightedEndpointsAreRespected(t *testing.T) {
	t.Parallel()
	for _, policy := range policies() {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			c := startControl(t)
			c.tell(cluster{name: "all", weight: 1, policy: policy, localities: []locality{
				{"a", 1, []endpoint{{startServer(t, 1), 90}, {startServer(t, 2), 10}}},
			}})
			conn := dial(t, c, "xds:///"+serviceName)
			awaitAll(ctx, t, conn, 1, 2)
			checkShare(t, "endpoints", share(ctx, t, conn, 1), map[int32]float64{1: .9, 2: .1})
		})
	}
}

// Localities keep their weights, and our policy chooses within them.
func TestWeightedLocalitiesAreRespected(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	c := startControl(t)
	c.tell(cluster{name: "all", weight: 1, policy: channel.RoundRobin, localities: []locality{
		{"a", 90, []endpoint{{startServer(t, 1), 1}, {startServer(t, 2), 1}}},
		{"b", 10, []endpoint{{startServer(t, 3), 1}}},
	}})
	conn := dial(t, c, "xds:///"+serviceName)
	awaitAll(ctx, t, conn, 1, 2, 3)
	checkShare(t, "localities", share(ctx, t, conn, manyCallers), map[int32]float64{1: .45, 2: .45, 3: .1})
}

// A canary grows step by step under calls, and becomes the whole: no call fails.
func TestCanaryGrowsWithoutAFailedCall(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	c := startControl(t)
	old, fresh := startServer(t, 1), startServer(t, 2)
	tell := func(part uint32) {
		endpoints := []endpoint{{fresh, part}}
		if part < 100 {
			endpoints = append(endpoints, endpoint{old, 100 - part})
		}
		c.tell(cluster{name: "all", weight: 1, policy: channel.RoundRobin, localities: []locality{{"a", 1, endpoints}}})
	}
	tell(10)
	conn := dial(t, c, "xds:///"+serviceName)
	awaitAll(ctx, t, conn, 1, 2)
	for _, part := range []uint32{10, 50, 100} {
		tell(part)
		awaitShare(ctx, t, conn, float64(part)/100)
	}
}

// awaitShare makes calls until server 2 has its share of a round of them. A round that is made while the control plane's
// word is under way has the old share.
func awaitShare(ctx context.Context, t *testing.T, conn *grpc.ClientConn, want float64) {
	t.Helper()
	for {
		got := share(ctx, t, conn, manyCallers)[2]
		if t.Failed() || ctx.Err() != nil {
			t.Fatalf("the canary has %.3f of the calls, want %.3f", got, want)
		}
		if math.Abs(got-want) <= canaryLimit {
			t.Logf("the canary has %.1f %% of the calls, %.0f %% are its due", 100*got, 100*want)
			return
		}
	}
}

// What a control plane removes is drained with a deadline, which the policies of xDS itself do not have.
func TestEndpointThatTheControlPlaneRemovesIsDrained(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	c := startControl(t)
	drain := time.Second
	one, two := startServer(t, 1), startServer(t, 2)
	all := cluster{name: "all", weight: 1, policy: channel.RoundRobin, config: map[string]any{"drainTimeout": "1s"}}
	all.localities = []locality{{"a", 1, []endpoint{{one, 1}}}}
	c.tell(all)
	conn := dial(t, c, "xds:///"+serviceName)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/test.Test/Stay")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
	var number wrapperspb.Int32Value
	if err := stream.RecvMsg(&number); err != nil || number.GetValue() != 1 {
		t.Fatalf("stream: server %d, %v", number.GetValue(), err)
	}
	all.localities = []locality{{"a", 1, []endpoint{{two, 1}}}}
	removed := time.Now()
	c.tell(all)
	err = stream.RecvMsg(&number)
	took := time.Since(removed)
	t.Logf("the stream ended %v after the removal: %v", took.Round(time.Millisecond), err)
	if status.Code(err) != codes.Unavailable || took < drain {
		t.Errorf("the stream ended after %v with %v, want Unavailable after %v", took, err, drain)
	}
	if server, err := who(ctx, conn); err != nil || server != 2 {
		t.Errorf("call: server %d, %v; want server 2", server, err)
	}
}

// The same options serve a target of DNS while xDS serves its own.
func TestOtherTargetsWorkBesideXDS(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	c := startControl(t)
	c.tell(cluster{name: "all", weight: 1, localities: []locality{{"a", 1, []endpoint{{startServer(t, 1), 1}}}}})
	for target, want := range map[string]int32{
		"xds:///" + serviceName: 1, "dns:///" + startServer(t, 2): 2, "chronicle://" + startServer(t, 3): 3,
	} {
		if server, err := who(ctx, dial(t, c, target)); err != nil || server != want {
			t.Errorf("%s: server %d, %v; want server %d", target, server, err, want)
		}
	}
}

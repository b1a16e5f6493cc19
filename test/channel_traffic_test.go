// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && linux

package test_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/hostpb"
)

const (
	// trafficCallers call every trafficPause, each call with trafficDeadline.
	trafficCallers  = 4
	trafficPause    = 10 * time.Millisecond
	trafficDeadline = 2 * time.Second
)

// traffic is unary calls that are made steadily on one channel, about 400 a second when they are quick.
type traffic struct {
	t     *testing.T
	stop  context.CancelFunc
	group sync.WaitGroup

	mu      sync.Mutex
	calls   []fleetCall   // guarded by mu; in the order of their ends
	changed chan struct{} // guarded by mu; closed and replaced with every call
}

// fleetCall is one call that has ended.
type fleetCall struct {
	began, ended time.Time
	server       int // that answered, by the last byte of its address; 0 when the call failed before it had one
	err          error
}

// startTraffic starts the calls, which end with the test.
func startTraffic(t *testing.T, conn *grpc.ClientConn) *traffic {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	tr := &traffic{t: t, stop: stop, changed: make(chan struct{})}
	t.Cleanup(tr.end)
	for range trafficCallers {
		tr.group.Go(func() { tr.call(ctx, hostpb.NewServerClient(conn)) })
	}
	return tr
}

// call calls until ctx is done.
func (tr *traffic) call(ctx context.Context, client hostpb.ServerClient) {
	ticker := time.NewTicker(trafficPause)
	defer ticker.Stop()
	for {
		made := one(ctx, client)
		if ctx.Err() != nil {
			return
		}
		tr.note(made)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// one makes one call.
func one(ctx context.Context, client hostpb.ServerClient) fleetCall {
	ctx, cancel := context.WithTimeout(ctx, trafficDeadline)
	defer cancel()
	var from peer.Peer
	made := fleetCall{began: time.Now()}
	_, made.err = client.GetVersionInfo(ctx, &emptypb.Empty{}, grpc.Peer(&from))
	made.ended = time.Now()
	made.server = numberOf(&from)
	return made
}

// numberOf is the number of a server: the last byte of its address, and 0 where there is none.
func numberOf(p *peer.Peer) int {
	if addr, ok := p.Addr.(*net.TCPAddr); ok {
		return int(addr.IP[len(addr.IP)-1])
	}
	return 0
}

func (tr *traffic) note(made fleetCall) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.calls = append(tr.calls, made)
	close(tr.changed)
	tr.changed = make(chan struct{})
}

// end ends the calls. It may be called twice.
func (tr *traffic) end() {
	tr.stop()
	tr.group.Wait()
}

// snapshot returns the calls so far, and what is closed when there is another.
func (tr *traffic) snapshot() (made []fleetCall, changed <-chan struct{}) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.calls[:len(tr.calls):len(tr.calls)], tr.changed
}

// since returns the calls that began at or after a point in time.
func (tr *traffic) since(from time.Time) []fleetCall {
	made, _ := tr.snapshot()
	var later []fleetCall
	for _, c := range made {
		if !c.began.Before(from) {
			later = append(later, c)
		}
	}
	return later
}

// await waits until holds is true for the calls that began at or after a point in time, and returns these.
func (tr *traffic) await(ctx context.Context, from time.Time, what string, holds func([]fleetCall) bool) []fleetCall {
	tr.t.Helper()
	for {
		_, changed := tr.snapshot()
		if later := tr.since(from); holds(later) {
			return later
		}
		select {
		case <-changed:
		case <-ctx.Done():
			tr.t.Fatalf("wait for %s: %v; calls since: %v, failed: %v", what, ctx.Err(), shares(tr.since(from)), failed(tr.since(from)))
		}
	}
}

// run lets calls be made for a span.
func (tr *traffic) run(ctx context.Context, span time.Duration) {
	tr.t.Helper()
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		tr.t.Fatal(ctx.Err())
	}
}

// shares are how many calls each server has answered.
func shares(calls []fleetCall) map[int]int {
	counts := make(map[int]int)
	for _, c := range calls {
		if c.err == nil {
			counts[c.server]++
		}
	}
	return counts
}

// failed are the calls that failed.
func failed(calls []fleetCall) []error {
	var errs []error
	for _, c := range calls {
		if c.err != nil {
			errs = append(errs, c.err)
		}
	}
	return errs
}

// reached says whether each of the servers has answered a call.
func reached(calls []fleetCall, servers ...int) bool {
	counts := shares(calls)
	for _, n := range servers {
		if counts[n] == 0 {
			return false
		}
	}
	return true
}

// firstOn is when the first call ended that one of the servers answered.
func firstOn(calls []fleetCall, servers ...int) time.Time {
	for _, c := range calls {
		for _, n := range servers {
			if c.err == nil && c.server == n {
				return c.ended
			}
		}
	}
	return time.Time{}
}

// lastOn is when the last call began that one of the servers answered.
func lastOn(calls []fleetCall, servers ...int) time.Time {
	var last time.Time
	for _, c := range calls {
		for _, n := range servers {
			if c.server == n && c.began.After(last) {
				last = c.began
			}
		}
	}
	return last
}

// lastFailure is when the last call that failed ended.
func lastFailure(calls []fleetCall) time.Time {
	var last time.Time
	for _, c := range calls {
		if c.err != nil && c.ended.After(last) {
			last = c.ended
		}
	}
	return last
}

// noneFailed checks that no call failed at all.
func (tr *traffic) noneFailed() {
	tr.t.Helper()
	made, _ := tr.snapshot()
	if errs := failed(made); len(errs) > 0 {
		tr.t.Errorf("%d of %d calls failed, the first with %v: %v", len(errs), len(made), status.Code(errs[0]), errs[0])
	}
}

// even checks that servers share calls evenly, within a tenth.
func (tr *traffic) even(calls []fleetCall, servers ...int) {
	tr.t.Helper()
	counts, all := shares(calls), 0
	for _, n := range counts {
		all += n
	}
	want := all / len(servers)
	for _, n := range servers {
		if got := counts[n]; got < want-want/10 || got > want+want/10 {
			tr.t.Errorf("server %d had %d of %d calls, want %d within a tenth", n, got, all, want)
		}
	}
}

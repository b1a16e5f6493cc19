// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && linux

package test_test

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const (
	// endLimit is what a server may take to end that has no clients.
	endLimit = 3 * time.Second
	// outage is how long nothing works.
	outage = 3 * time.Second
	// backLimit is how soon calls have to succeed again: a lookup within a second, and a connection.
	backLimit = 3 * time.Second
	// frozenBack is how soon that is when the name server was silent too: a lookup that hangs gives up after 5 s.
	frozenBack = 8 * time.Second
	// failLimit is how soon a call has to fail while there is no server.
	failLimit = time.Second
	// evenCalls are how many calls show whether servers share them.
	evenCalls = 400
)

// Servers that are added get calls within an interval, without any trouble that would make a client look.
func TestChannelReachesAddedServersWithinAnInterval(t *testing.T) {
	alone(t)
	ctx := within(t)
	f := startChannelFleet(ctx, t, 2)
	tr := startTraffic(t, f.dial())
	tr.await(ctx, time.Time{}, "calls to both servers", func(calls []fleetCall) bool { return reached(calls, 1, 2) })

	f.start(ctx, 3, 4)
	added := time.Now()
	f.publish(ctx, 1, 2, 3, 4)
	calls := tr.await(ctx, added, "calls to the new servers", func(calls []fleetCall) bool { return reached(calls, 3, 4) })
	for _, n := range []int{3, 4} {
		took := firstOn(calls, n).Sub(added)
		t.Logf("server %d had its first call %v after it was added", n, ms(took))
		if want := channelInterval + dueLimit; took > want {
			t.Errorf("server %d had its first call after %v, want %v at most", n, took, want)
		}
	}
	settled := time.Now()
	calls = tr.await(ctx, settled, "calls", func(calls []fleetCall) bool { return len(calls) >= evenCalls })
	tr.end()
	tr.even(calls, 1, 2, 3, 4)
	tr.noneFailed()
}

// Servers that are removed get no more calls. What still runs on them may go on until the channel's drain is over; then
// nobody is left on them, and they end at once when they are asked to. No call fails.
func TestChannelLeavesRemovedServersWithoutAFailedCall(t *testing.T) {
	alone(t)
	ctx := within(t)
	f := startChannelFleet(ctx, t, 4)
	conn := f.dial()
	tr := startTraffic(t, conn)
	tr.await(ctx, time.Time{}, "calls to all servers", func(calls []fleetCall) bool { return reached(calls, 1, 2, 3, 4) })
	streams := watchAll(ctx, t, conn, 1, 2, 3, 4)

	removed := time.Now()
	f.publish(ctx, 1, 2)
	streams.check(ctx, removed, 3, 4)
	asked := time.Now()
	f.terminate(3, 4)
	f.awaitEnd(ctx, 3, 4)
	gone := time.Since(asked)
	after := time.Now()
	calls := tr.await(ctx, after, "calls", func(calls []fleetCall) bool { return len(calls) >= evenCalls })
	tr.end()
	tr.even(calls, 1, 2)
	tr.noneFailed()
	last := lastOn(tr.since(removed), 3, 4).Sub(removed)
	t.Logf("the last call to a removed server began %v after the removal; both ended %v after they were asked to", ms(max(last, 0)), ms(gone))
	if want := channelInterval + dueLimit; last > want {
		t.Errorf("the last call to a removed server began after %v, want %v at most", last, want)
	}
	if gone > endLimit {
		t.Errorf("the servers ended after %v, want %v at most: nobody is on them", gone, endLimit)
	}
}

// All servers are replaced one after the other, as in a rolling update: no call fails.
func TestChannelLosesNoCallInARollingReplacement(t *testing.T) {
	alone(t)
	ctx := within(t)
	f := startChannelFleet(ctx, t, 3)
	tr := startTraffic(t, f.dial())
	tr.await(ctx, time.Time{}, "calls to all servers", func(calls []fleetCall) bool { return reached(calls, 1, 2, 3) })
	began := time.Now()
	for n := 1; n <= 3; n++ {
		f.start(ctx, n+3)
		f.publish(ctx, numbers(n+1, n+3)...)
		f.terminate(n)
		swapped := time.Now()
		tr.await(ctx, swapped, "calls to the new server", func(calls []fleetCall) bool { return reached(calls, n+3) })
	}
	f.awaitEnd(ctx, 1, 2, 3)
	after := time.Now()
	calls := tr.await(ctx, after, "calls", func(calls []fleetCall) bool { return len(calls) >= evenCalls })
	tr.end()
	t.Logf("replaced in %v, with %d calls", ms(time.Since(began)), len(tr.since(began)))
	tr.even(calls, 4, 5, 6)
	tr.noneFailed()
}

// All servers are replaced at once. The old ones serve for one more interval, as those of Kubernetes do that have such a
// preStop hook: no call fails.
func TestChannelLosesNoCallWhenEverythingIsReplacedAtOnce(t *testing.T) {
	alone(t)
	ctx := within(t)
	f := startChannelFleet(ctx, t, 3)
	tr := startTraffic(t, f.dial())
	tr.await(ctx, time.Time{}, "calls to all servers", func(calls []fleetCall) bool { return reached(calls, 1, 2, 3) })
	f.start(ctx, 4, 5, 6)
	replaced := time.Now()
	f.publish(ctx, 4, 5, 6)
	tr.run(ctx, channelInterval+dueLimit)
	f.terminate(1, 2, 3)
	f.awaitEnd(ctx, 1, 2, 3)
	after := time.Now()
	calls := tr.await(ctx, after, "calls", func(calls []fleetCall) bool { return len(calls) >= evenCalls })
	tr.end()
	all := tr.since(replaced)
	t.Logf("the first call to a new server ended %v after the replacement, the last one to an old one began %v after it",
		ms(firstOn(all, 4, 5, 6).Sub(replaced)), ms(lastOn(all, 1, 2, 3).Sub(replaced)))
	tr.even(calls, 4, 5, 6)
	tr.noneFailed()
}

// All servers end at once, and only the name server knows of the new ones: the loss itself makes the channel look, and
// calls fail only until its answer.
func TestChannelBridgesAReplacementWithoutNotice(t *testing.T) {
	alone(t)
	ctx := within(t)
	f := startChannelFleet(ctx, t, 3)
	tr := startTraffic(t, f.dial())
	tr.await(ctx, time.Time{}, "calls to all servers", func(calls []fleetCall) bool { return reached(calls, 1, 2, 3) })
	f.start(ctx, 4, 5, 6)
	replaced := time.Now()
	f.publish(ctx, 4, 5, 6)
	f.kill(1, 2, 3)
	tr.await(ctx, replaced, "calls to all new servers", func(calls []fleetCall) bool { return reached(calls, 4, 5, 6) })
	settled := time.Now()
	tr.await(ctx, settled, "calls", func(calls []fleetCall) bool { return len(calls) >= evenCalls })
	tr.end()
	all := tr.since(replaced)
	last := max(0, lastFailure(tr.since(time.Time{})).Sub(replaced))
	t.Logf("%d of %d calls failed, the last %v after the replacement; the first call to a new server ended after %v",
		len(failed(all)), len(all), ms(last), ms(firstOn(all, 4, 5, 6).Sub(replaced)))
	if want := channelMinInterval + dueLimit; last > want {
		t.Errorf("calls failed until %v after the replacement, want %v at most", last, want)
	}
}

// All servers die, and are back where they were: calls fail at once meanwhile, and succeed again soon.
func TestChannelRecoversWhenItsServersAreBack(t *testing.T) {
	alone(t)
	ctx := within(t)
	f := startChannelFleet(ctx, t, 3)
	tr := startTraffic(t, f.dial())
	tr.await(ctx, time.Time{}, "calls to all servers", func(calls []fleetCall) bool { return reached(calls, 1, 2, 3) })
	killed := time.Now()
	f.kill(1, 2, 3)
	tr.run(ctx, outage)
	f.start(ctx, 1, 2, 3)
	back := time.Now()
	tr.await(ctx, back, "calls to all servers", func(calls []fleetCall) bool { return reached(calls, 1, 2, 3) })
	tr.checkOutage(killed, back, backLimit)
}

// All servers die and the name server falls silent. Then there are other servers, and a name server that tells them.
func TestChannelRecoversFromAnOutageOfEverything(t *testing.T) {
	alone(t)
	ctx := within(t)
	f := startChannelFleet(ctx, t, 3)
	tr := startTraffic(t, f.dial())
	tr.await(ctx, time.Time{}, "calls to all servers", func(calls []fleetCall) bool { return reached(calls, 1, 2, 3) })
	f.dns.signal(syscall.SIGSTOP)
	killed := time.Now()
	f.kill(1, 2, 3)
	tr.run(ctx, outage)
	f.start(ctx, 4, 5, 6)
	f.dns.signal(syscall.SIGCONT)
	f.publish(ctx, 4, 5, 6)
	back := time.Now()
	tr.await(ctx, back, "calls to all new servers", func(calls []fleetCall) bool { return reached(calls, 4, 5, 6) })
	tr.checkOutage(killed, back, frozenBack)
}

// A name server that says nothing, or that there is no such name, takes no server away.
func TestChannelKeepsItsServersWhileTheNameServerIsWrong(t *testing.T) {
	alone(t)
	ctx := within(t)
	f := startChannelFleet(ctx, t, 2)
	tr := startTraffic(t, f.dial())
	tr.await(ctx, time.Time{}, "calls to both servers", func(calls []fleetCall) bool { return reached(calls, 1, 2) })
	f.publish(ctx) // the name is gone
	tr.run(ctx, channelMaxInterval)
	f.dns.signal(syscall.SIGSTOP)
	tr.run(ctx, outage)
	f.dns.signal(syscall.SIGCONT)
	f.publish(ctx, 1, 2)
	after := time.Now()
	calls := tr.await(ctx, after, "calls", func(calls []fleetCall) bool { return len(calls) >= evenCalls })
	tr.end()
	tr.even(calls, 1, 2)
	tr.noneFailed()
}

// checkOutage judges calls that were made before, in and after an outage: those in it failed at once and with a code that
// says so, and soon after its end none did.
func (tr *traffic) checkOutage(began, ended time.Time, limit time.Duration) {
	tr.t.Helper()
	settled := time.Now()
	ctx := within(tr.t)
	tr.await(ctx, settled, "calls", func(calls []fleetCall) bool { return len(calls) >= evenCalls })
	tr.end()
	all := tr.since(began)
	errs, slowest := failed(all), time.Duration(0)
	for _, c := range all {
		if c.err == nil {
			continue
		}
		slowest = max(slowest, c.ended.Sub(c.began))
		if status.Code(c.err) != codes.Unavailable {
			tr.t.Fatalf("a call failed after %v with %v, want Unavailable", c.ended.Sub(c.began), c.err)
		}
	}
	took := lastFailure(all).Sub(ended)
	tr.t.Logf("%d calls failed in an outage of %v, the slowest after %v, the last %v after its end",
		len(errs), ms(ended.Sub(began)), ms(slowest), ms(took))
	if len(errs) == 0 {
		tr.t.Error("no call failed, want an outage")
	}
	if slowest > failLimit {
		tr.t.Errorf("a call took %v to fail, want %v at most", slowest, failLimit)
	}
	if took > limit {
		tr.t.Errorf("calls failed until %v after the outage, want %v at most", took, limit)
	}
}

// watches are streams that servers do not end by themselves, one on each server.
type watches struct {
	t       *testing.T
	streams map[int]*longWatch
}

// longWatch is a stream that is read to its end.
type longWatch struct {
	done  chan struct{}
	err   error     // after done
	ended time.Time // after done
}

// watchAll opens streams until each of the servers has one.
func watchAll(ctx context.Context, t *testing.T, conn *grpc.ClientConn, servers ...int) *watches {
	t.Helper()
	w := &watches{t: t, streams: make(map[int]*longWatch)}
	for len(w.streams) < len(servers) {
		opened, cancel := context.WithCancel(ctx)
		t.Cleanup(cancel)
		stream, err := grpc_health_v1.NewHealthClient(conn).Watch(opened, &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		server := 0
		if p, ok := peer.FromContext(stream.Context()); ok && slices.Contains(servers, numberOf(p)) {
			server = numberOf(p)
		}
		if w.streams[server] != nil || server == 0 {
			cancel()
			continue
		}
		l := &longWatch{done: make(chan struct{})}
		w.streams[server] = l
		go func() {
			defer close(l.done)
			for l.err == nil {
				_, l.err = stream.Recv()
			}
			l.ended = time.Now()
		}()
	}
	return w
}

// check: the streams of removed servers were ended by the drain of the channel, and the others run.
func (w *watches) check(ctx context.Context, removed time.Time, servers ...int) {
	w.t.Helper()
	for _, n := range servers {
		l := w.streams[n]
		select {
		case <-l.done:
		case <-ctx.Done():
			w.t.Fatalf("the stream on server %d goes on", n)
		}
		took := l.ended.Sub(removed)
		w.t.Logf("the stream on server %d was ended %v after the removal: %v", n, ms(took), l.err)
		if code := status.Code(l.err); code != codes.Unavailable {
			w.t.Errorf("the stream on server %d ended with %v, want Unavailable", n, l.err)
		}
		if least, most := channelDrain, channelInterval+channelDrain+dueLimit; took < least || took > most {
			w.t.Errorf("the stream on server %d was ended after %v, want %v to %v", n, took, least, most)
		}
		delete(w.streams, n)
	}
	for n, l := range w.streams {
		select {
		case <-l.done:
			w.t.Errorf("the stream on server %d, which stays, ended with %v", n, l.err)
		default:
		}
	}
}

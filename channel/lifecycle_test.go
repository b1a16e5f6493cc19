// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/evenkeel-go/evenkeel/channel"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

func TestRemovedEndpointIsDrainedWithADeadline(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	config := quick()
	config.DrainTimeout = 500 * time.Millisecond
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1), f.at(2))
	var streams [2]grpc.ClientStream
	for i := range 20 { // one stream to each
		stream, name, err := openStream(testContext(t), conn)
		if err != nil {
			t.Fatal(err)
		}
		if n := map[string]int{f.at(1): 0, f.at(2): 1}[name]; streams[n] == nil {
			streams[n] = stream
		} else if i == 19 && (streams[0] == nil || streams[1] == nil) {
			t.Fatal("20 streams led to one server")
		}
	}
	f.set(2)
	heard.wait(t, "the removal", func() bool { return len(heard.changes[len(heard.changes)-1].Removed) == 1 })
	removed := time.Now()
	before := f.server[1].calls.Load()
	reaches(t, conn, f.at(2))
	tally(t, conn, 50)
	if got := f.server[1].calls.Load() - before; got > 1 { // one may have been under way when the set changed
		t.Errorf("the removed endpoint got %d calls", got)
	}
	err := streams[0].RecvMsg(&wrapperspb.StringValue{})
	if took := time.Since(removed); status.Code(err) != codes.Unavailable || took < 300*time.Millisecond {
		t.Errorf("the stream to the removed endpoint ended after %v with %v, want Unavailable after the drain", took, err)
	}
	heard.wait(t, "the end of the endpoint", func() bool { return stateOf(heard, f.at(1)) == connectivity.Shutdown })
	if _, name, err := openStream(testContext(t), conn); err != nil || name != f.at(2) {
		t.Errorf("got %q, %v of a new stream, want it at %s", name, err, f.at(2))
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	for i, e := range heard.endpoints {
		if e.Addr == f.at(1) && e.State == connectivity.Shutdown && i < len(heard.endpoints)-1 {
			for _, later := range heard.endpoints[i+1:] {
				if later.Addr == f.at(1) && later.State == connectivity.Connecting {
					t.Error("the removed endpoint was dialled again")
				}
			}
		}
	}
}

// TestReplacementOfTheOnlyServerFailsNoCall has both servers in DNS for a moment, as a rolling update does.
func TestReplacementOfTheOnlyServerFailsNoCall(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	conn := dial(t, open(t, quick()), f.target())
	reaches(t, conn, f.at(1))
	calls := callSteadily(t, conn)
	for i := 2; i <= 4; i++ {
		f.start(i)
		f.set(i-1, i)
		reaches(t, conn, f.at(i-1), f.at(i))
		f.set(i)
		reaches(t, conn, f.at(i))
		f.server[i-1].grpc.GracefulStop()
	}
	if made, failed := calls.stop(); failed > 0 || made < 100 {
		t.Errorf("got %d failures of %d calls, want none of many", failed, made)
	}
}

// steady makes calls until it is stopped.
type steady struct {
	cancel       context.CancelFunc
	running      sync.WaitGroup
	made, failed atomic.Int64
}

func callSteadily(t *testing.T, conn grpc.ClientConnInterface) *steady {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &steady{cancel: cancel}
	for range 4 {
		s.running.Go(func() {
			for ctx.Err() == nil {
				limited, done := context.WithTimeout(context.WithoutCancel(ctx), patience)
				_, err := who(limited, conn)
				done()
				s.made.Add(1)
				if err != nil {
					s.failed.Add(1)
				}
			}
		})
	}
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *steady) stop() (made, failed int64) {
	s.cancel()
	s.running.Wait()
	return s.made.Load(), s.failed.Load()
}

func TestDeadTransportLeavesRotationAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	config := quick()
	config.Interval, config.MaxInterval, config.MinInterval = time.Hour, time.Hour, time.Hour // DNS changes nothing
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1), f.at(2), f.at(3))
	f.stop(1)
	heard.wait(t, "the loss", func() bool {
		state := stateOf(heard, f.at(1))
		return state != connectivity.Ready && state >= 0
	})
	if got := tally(t, conn, 100); got[f.at(2)]+got[f.at(3)] != 100 {
		t.Errorf("got %v, want all calls at the servers that live", got)
	}
}

func TestFailedEndpointIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	conn := dial(t, open(t, quick()), f.target())
	reaches(t, conn, f.at(1), f.at(2))
	f.stop(1)
	eventually(t, conn, f.at(2))
	f.start(1)
	reaches(t, conn, f.at(1), f.at(2))
}

func TestUnhealthyEndpointGetsNoCall(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	const service = "test.Who"
	for _, s := range f.server {
		s.health.SetServingStatus(service, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	config := quick()
	config.HealthService = service
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1), f.at(2), f.at(3))
	f.server[1].health.SetServingStatus(service, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	reaches(t, conn, f.at(2), f.at(3))
	for i := 2; i <= 3; i++ {
		f.server[i].health.SetServingStatus(service, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
	fails(t, conn, codes.Unavailable)
	f.server[2].health.SetServingStatus(service, grpc_health_v1.HealthCheckResponse_SERVING)
	eventually(t, conn, f.at(2))
}

// TestReusedAddressIsNeverTakenForTheService swaps the addresses of two services whose certificates tell them apart.
func TestReusedAddressIsNeverTakenForTheService(t *testing.T) {
	t.Parallel()
	ca, err := devcert.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	certificates := make(map[string]tls.Certificate)
	for _, name := range []string{fleetName, "other.test"} {
		if certificates[name], err = ca.Issue(name); err != nil {
			t.Fatal(err)
		}
	}
	f := newFleet(t, 1)
	identity := fleetName
	f.creds = func() credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificates[identity]}})
	}
	f.start(2)
	f.set(2)
	conn := dial(t, open(t, quick()), f.target(),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool()})))
	reaches(t, conn, f.at(2))
	f.start(3) // where the service will be
	f.stop(2)
	identity = "other.test"
	intruder := f.start(2)
	fails(t, conn, codes.Unavailable)
	f.set(3)
	eventually(t, conn, f.at(3))
	if got := intruder.calls.Load(); got != 0 {
		t.Errorf("%d calls reached the service that took over the address, want none", got)
	}
}

func TestChannelsThatComeAndGoLeaveNothingBehind(t *testing.T) {
	f := newFleet(t, 2)
	if err := f.dns.SetFault("silent.test", "", evenkeeltest.DNSFault{Silent: true}); err != nil {
		t.Fatal(err)
	}
	cycle := func(i int) {
		t.Helper()
		c, err := channel.New(quick())
		if err != nil {
			t.Fatal(err)
		}
		target := f.target()
		switch i % 5 {
		case 3:
			target = fmt.Sprintf("dns://%s/gone.test:%d", f.dns.Addr(), f.port)
		case 4:
			target = fmt.Sprintf("dns://%s/silent.test:%d", f.dns.Addr(), f.port)
		}
		options := append(c.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		conn, err := grpc.NewClient(target, options...)
		if err != nil {
			t.Fatal(err)
		}
		conn.Connect()
		switch i % 5 {
		case 3:
			if _, err := who(testContext(t), conn); status.Code(err) != codes.Unavailable {
				t.Errorf("got %v of a name that does not exist, want Unavailable", err)
			}
		case 4: // closed in its lookup
		default:
			tally(t, conn, 2)
		}
		if err := errors.Join(conn.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	}
	for i := range 20 {
		cycle(i)
	}
	goroutines, files := settled(t), openFiles(t)
	for i := range 500 {
		cycle(i)
	}
	deadline := time.Now().Add(patience)
	for {
		g, o := runtime.NumGoroutine(), openFiles(t)
		if g <= goroutines+5 && o <= files+5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d goroutines and %d open files after 500 channels, want %d and %d as before", g, o, goroutines, files)
		}
		tick(t)
	}
}

// settled returns the number of goroutines once it has not changed for a while.
func settled(t *testing.T) int {
	t.Helper()
	last, same := runtime.NumGoroutine(), 0
	for same < 20 {
		tick(t)
		if now := runtime.NumGoroutine(); now == last {
			same++
		} else {
			last, same = now, 0
		}
	}
	return last
}

// openFiles returns how many files and sockets the process has open; 0 where the system does not tell.
func openFiles(t *testing.T) int {
	t.Helper()
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return len(names)
}

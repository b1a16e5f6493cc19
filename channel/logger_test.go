// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/channel"
	"github.com/evenkeel-go/evenkeel/discover"
)

// oddHandler does with each record what its function does.
type oddHandler func(slog.Record)

func (oddHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h oddHandler) Handle(_ context.Context, record slog.Record) error {
	h(record)
	return nil
}

func (h oddHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h oddHandler) WithGroup(string) slog.Handler { return h }

func TestLoggerThatBlocksHoldsUpNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.set(1)
	release := make(chan struct{})
	defer close(release)
	config := quick()
	config.Logger = slog.New(oddHandler(func(slog.Record) { <-release }))
	c := open(t, config)
	conn := dial(t, c, f.target())
	reaches(t, conn, f.at(1))
	f.set(1, 2)
	reaches(t, conn, f.at(1), f.at(2))
	f.stop(1) // of which the policy tells
	eventually(t, conn, f.at(2))
	closesSoon(t, "the channel of grpc-go", func() { _ = conn.Close() })
	closesSoon(t, "the channel", func() { _ = c.Close() })
}

func TestLoggerThatPanicsEndsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.set(1)
	config := quick()
	config.Logger = slog.New(oddHandler(func(slog.Record) { panic("no") }))
	heard := hear(&config)
	conn := dial(t, open(t, config), f.target())
	reaches(t, conn, f.at(1))
	f.set(1, 2)
	reaches(t, conn, f.at(1), f.at(2))
	heard.wait(t, "both changes", func() bool { return len(heard.changes) == 2 })
}

func TestCallbackThatEndsItsGoroutineIsCalledAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	config := quick()
	heard := hear(&config)
	var calls atomic.Int64
	config.OnEndpoint = func(channel.EndpointState) {
		calls.Add(1)
		runtime.Goexit()
	}
	c := open(t, config)
	conn := dial(t, c, f.target())
	reaches(t, conn, f.at(1))
	heard.resolved(t, 2)
	for ctx := testContext(t); calls.Load() < 2; tick(t) { // connecting, ready
		if ctx.Err() != nil {
			t.Fatalf("the callback was called %d times, want again after it had ended its goroutine", calls.Load())
		}
	}
	closesSoon(t, "the channel", func() { _ = c.Close() })
}

// TestDetailsDriveNothingOut has a logger that is slow, and a set that makes hundreds of records of details.
func TestDetailsDriveNothingOut(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	release := make(chan struct{})
	config := quick()
	var log safeBuffer
	text := slog.NewTextHandler(&log, nil)
	began := make(chan struct{}, 1)
	config.Logger = slog.New(oddHandler(func(record slog.Record) {
		select {
		case began <- struct{}{}:
		default:
		}
		<-release
		if text.Enabled(context.Background(), record.Level) {
			_ = text.Handle(context.Background(), record)
		}
	}))
	many := make([]discover.Endpoint, 600)
	for i := range many {
		many[i] = f.endpoint(i + 1) // of which one is a server
	}
	var asked atomic.Int64
	config.Resolver = badSource(func(context.Context) ([]discover.Endpoint, error) {
		if asked.Add(1) == 1 {
			return many[:1:1], nil
		}
		return append([]discover.Endpoint(nil), many...), nil
	})
	conn := dial(t, open(t, config), ownTarget)
	conn.Connect()
	<-began // a record holds the goroutine; what comes now waits
	for ctx := testContext(t); asked.Load() < 4; tick(t) {
		if ctx.Err() != nil {
			t.Fatal("the source is not asked any more")
		}
	}
	close(release)
	for ctx := testContext(t); strings.Count(log.String(), "endpoints changed") < 2; tick(t) {
		if ctx.Err() != nil {
			t.Fatalf("got a log without the change to many:\n%.2000s", log.String())
		}
	}
	if strings.Contains(log.String(), "left out") {
		t.Errorf("got a log that tells of news left out:\n%.2000s", log.String())
	}
}

func TestServerWithoutAHealthServiceIsToldOnce(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*channel.Config){
		"by the config":         func(c *channel.Config) { c.HealthService = "test.Who" },
		"by the service config": func(c *channel.Config) { c.ServiceConfig = `{"healthCheckConfig":{"serviceName":"test.Who"}}` },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 1)
			listener, err := net.Listen("tcp", f.at(2))
			if err != nil {
				t.Fatal(err)
			}
			bare := &server{name: listener.Addr().String()}
			bare.grpc = grpc.NewServer(grpc.UnknownServiceHandler(func(service any, stream grpc.ServerStream) error {
				if method, _ := grpc.Method(stream.Context()); method == grpc_health_v1.Health_Watch_FullMethodName {
					return status.Error(codes.Unimplemented, "no such service")
				}
				return bare.handle(service, stream)
			}))
			f.run(bare, listener)
			f.server[1].health.SetServingStatus("test.Who", grpc_health_v1.HealthCheckResponse_SERVING)
			f.set(1, 2)
			var log safeBuffer
			config := quick()
			set(&config)
			config.Logger = slog.New(slog.NewTextHandler(&log, nil))
			heard := hear(&config)
			c := open(t, config)
			conn := dial(t, c, f.target())
			reaches(t, conn, f.at(1), f.at(2))
			told := func() (n int) {
				for _, e := range heard.endpoints {
					if errors.Is(e.Err, channel.ErrNoHealthService) && e.Addr == f.at(2) && e.State == connectivity.Ready {
						n++
					}
				}
				return n
			}
			heard.wait(t, "the lack of a health service", func() bool { return told() == 1 })
			again := dial(t, c, f.target())
			reaches(t, again, f.at(1), f.at(2))
			heard.resolved(t, 3)
			heard.mu.Lock()
			defer heard.mu.Unlock()
			if n := told(); n != 1 || strings.Count(log.String(), "server has no health service") != 1 {
				t.Errorf("told %d times, want once; log:\n%s", n, log.String())
			}
		})
	}
}

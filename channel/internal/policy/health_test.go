// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/balancer/weight"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/channel/internal/policy"
)

// checking is a service config that asks for health checks of the service "fleet".
func checking(name string) string {
	return fmt.Sprintf(`{"loadBalancingConfig":[{%q:{}}],"healthCheckConfig":{"serviceName":"fleet"}}`, name)
}

func (n *node) serve(serving bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthpb.HealthCheckResponse_SERVING
	}
	n.health.SetServingStatus("fleet", state)
}

func TestUnhealthyEndpointGetsNoCall(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b", "c")
		for _, n := range nodes {
			n.serve(true)
		}
		nodes[2].serve(false)
		c := w.clientWith(checking(name), nil)
		c.update("a", "b", "c")
		settle()
		wantServers(t, c, "a", "b")
		nodes[2].serve(true)
		settle()
		wantServers(t, c, "a", "b", "c")
		nodes[0].serve(false)
		synctest.Wait() // no time passes
		wantServers(t, c, "b", "c")
		if got := nodes[0].accepted.Load() + nodes[2].accepted.Load(); got != 2 {
			t.Errorf("health cost connections: got %d of two servers, want 2", got)
		}
	})
}

func TestCallsFailClearlyWhenNothingIsHealthy(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b", "c")
		c := w.clientWith(checking(name), nil) // a service that a server does not know is not healthy
		c.update("a", "b", "c")
		settle()
		_, err := c.who()
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no endpoint is usable") ||
			!strings.Contains(err.Error(), "health check") {
			t.Errorf("got %v, want Unavailable that tells of health checks", err)
		}
		c.update("c", "b", "a") // an answer does not make anything healthy, nor cost a connection
		settle()
		if _, err := c.who(); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v after the same answer, want Unavailable", err)
		}
		nodes[1].serve(true)
		settle()
		wantServers(t, c, "b")
		for _, n := range nodes {
			if got := n.accepted.Load(); got != 1 {
				t.Errorf("server %s accepted %d connections, want 1", n.addr, got)
			}
		}
	})
}

func TestUnhealthyEndpointGetsNoCallAfterAnUpdate(t *testing.T) {
	updates := []struct {
		name string
		do   func(c *client)
	}{
		{"the same set", func(c *client) { c.update("a", "b") }},
		{"another order", func(c *client) { c.update("b", "a") }},
		{"an endpoint more", func(c *client) { c.update("a", "b", "c") }},
		{"other weights", func(c *client) {
			c.updateEndpoints(weight.Set(at("a"), weight.EndpointInfo{Weight: 3}), at("b"))
		}},
		{"removed and taken back", func(c *client) { c.update("b"); settle(); c.update("a", "b") }},
	}
	for _, update := range updates {
		t.Run(update.name, func(t *testing.T) {
			bubbles(t, func(t *testing.T, w *world, name string) {
				nodes := w.startAll("a", "b", "c")
				for _, n := range nodes {
					n.serve(true)
				}
				c := w.clientWith(checking(name), nil)
				c.update("a", "b")
				settle()
				wantServers(t, c, "a", "b")
				nodes[0].serve(false)
				settle()
				update.do(c)
				settle()
				if got := c.tally(60); got["a"] > 0 {
					t.Errorf("the endpoint that says NOT_SERVING got %d of 60 calls", got["a"])
				}
				nodes[0].serve(true)
				settle()
				if got := c.tally(60); got["a"] == 0 {
					t.Error("the endpoint got no call when it was healthy again")
				}
			})
		})
	}
}

func TestUnhealthyEndpointThatIsRemovedDrains(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		nodes[0].serve(true)
		nodes[1].serve(true)
		c := w.clientWith(checking(name), nil)
		c.update("b")
		done := ended(c.holdOn(t.Context(), "b"))
		nodes[1].serve(false)
		settle()
		c.update("a")
		settle()
		select {
		case err := <-done:
			t.Errorf("the stream was cut at once: %v", err)
		default:
		}
		if err := <-done; status.Code(err) != codes.Unavailable {
			t.Errorf("got %v, want Unavailable at the deadline", err)
		}
	})
}

// recorder notes what hooks are told.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := strings.Join(r.events, ", ")
	r.events = nil
	return events
}

func TestServersWithoutHealthServiceAreToldOnceAndCountAsHealthy(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		w.plain = true
		w.startAll("a", "b")
		w.plain = false
		w.start("c").serve(true)
		var told recorder
		hooks := &policy.Hooks{HealthService: "fleet", NoHealth: func(addr string) { told.note("%s", addr) }}
		c := w.clientWith(checking(name), hooks)
		c.update("c")
		settle()
		if got := told.take(); got != "" {
			t.Errorf("told %q of a server that has a health service", got)
		}
		c.update("a", "b", "c")
		settle()
		wantServers(t, c, "a", "b", "c")
		if got := told.take(); got != "a" && got != "b" {
			t.Errorf("told %q, want one of the servers without a health service, once", got)
		}
	})
}

func TestHooksTellWhatHappensInOrder(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		a := w.start("a")
		var told recorder
		c := w.clientWith(fmt.Sprintf(`{"loadBalancingConfig":[{%q:{}}]}`, name), &policy.Hooks{
			Endpoint: func(addr string, _, is connectivity.State, err error) { told.note("%s %v %t", addr, is, err != nil) },
			Usable:   func(usable bool) { told.note("usable %t", usable) },
		})
		steps := []struct {
			name string
			do   func()
			want string
		}{
			{"dialled", func() { c.update("a") }, "a CONNECTING false, a READY false, usable true"},
			{"the same again", func() { c.update("a") }, ""},
			{"lost and refused", func() { a.stop() }, "a CONNECTING false, usable false, a TRANSIENT_FAILURE true"},
			{"replaced", func() { w.start("b"); c.update("b") }, "a SHUTDOWN false, b CONNECTING false, b READY false, usable true"},
			{"removed", func() { w.start("c"); c.update("c") }, "b SHUTDOWN false, c CONNECTING false, usable false, c READY false, usable true"},
			{"taken back", func() { c.update("c", "b") }, "b READY false"},
			{"closed", func() { _ = c.Close() }, ""},
		}
		for _, step := range steps {
			step.do()
			settle()
			if got := told.take(); got != step.want {
				t.Errorf("%s: got %q, want %q", step.name, got, step.want)
			}
		}
	})
}

func TestShutdownIsTheLastThatIsToldOfARemovedEndpoint(t *testing.T) {
	bubbles(t, func(t *testing.T, w *world, name string) {
		nodes := w.startAll("a", "b")
		w.setHang("slow", true)
		for _, n := range nodes {
			n.serve(true)
		}
		var told recorder
		counts := make(map[connectivity.State]int)
		c := w.clientWith(checking(name), &policy.Hooks{
			Endpoint: func(addr string, was, is connectivity.State, _ error) {
				told.note("%s %v", addr, is)
				counts[was]--
				counts[is]++
			},
		})
		c.update("a", "b", "slow", "refused")
		settle()
		c.holdOn(t.Context(), "a")
		told.take()
		c.update("b")
		settle()
		got := strings.Split(told.take(), ", ")
		slices.Sort(got)
		want := []string{"a SHUTDOWN", "refused SHUTDOWN", "slow SHUTDOWN"}
		if !slices.Equal(got, want) {
			t.Errorf("removed: got %q, want %q", got, want)
		}
		nodes[0].serve(false)
		settle()
		nodes[0].stop()
		time.Sleep(time.Hour)
		if got := told.take(); got != "" {
			t.Errorf("when the server of the removed endpoint stopped: got %q, want nothing", got)
		}
		w.start("a").serve(true)
		c.update("a", "b")
		settle()
		if got, want := told.take(), "a IDLE, a CONNECTING, a READY"; got != want && got != "a CONNECTING, a READY" {
			t.Errorf("taken back: got %q, want %q", got, want)
		}
		delete(counts, connectivity.Shutdown)
		for state, n := range counts {
			if n != 0 && (state != connectivity.Ready || n != 2) {
				t.Errorf("counted %d endpoints as %v, want 2 as READY and no other", n, state)
			}
		}
	})
}

func TestUnixSocketsStayGrpcsOwn(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/s"
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	w := newLoopback(t)
	n := &node{world: w, addr: "unix:" + path, server: grpc.NewServer()}
	n.server.RegisterService(echoService(), n)
	served := make(chan error, 1)
	go func() { served <- n.server.Serve(listener) }()
	t.Cleanup(func() {
		n.server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	c := w.client(policy.RoundRobin, "{}")
	c.update("unix:" + path)
	wantServers(t, c, "unix:"+path)
}

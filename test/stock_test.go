// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend

package test_test

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

const (
	// stockPatience bounds the whole life of the stock clients, which see their reservations expire.
	stockPatience = 90 * time.Second
	// stockStay is how many keep-alives a client answers before its server is killed, and again afterwards.
	stockStay = 4
	// stockBack is how soon a client has to be back: a fixed wait of 3 s in the slowest, and a jitter.
	stockBack = 10 * time.Second
)

// stockFleet is servers and the clients of all shapes.
type stockFleet struct {
	t       *testing.T
	servers map[string]*serving
	clients []*stockClient
}

// Clients in the wire shapes of the five stock clients connect to three servers, stay, lose one of these without notice,
// and come back on the others. The servers count them and what they have reserved, and list them as what they are.
// Reservations that nobody came for are gone after 30 s.
func TestStockClientsConnectStayLoseTheirServerAndComeBack(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("every client needs a loopback address of its own")
	}
	ctx, cancel := context.WithTimeout(t.Context(), stockPatience)
	defer cancel()
	f := startStockFleet(ctx, t)
	began := time.Now()
	up := f.await(ctx, "to be up and stay", func(_ *stockClient, s stockSession) bool { return s.up && s.answers >= stockStay })
	f.check(ctx, up, 1)
	t.Logf("%d clients have stayed for %d keep-alives after %v, spread %v", len(f.clients), stockStay, ms(time.Since(began)), f.spread(up))

	victim := f.mostLoved(up)
	killed := time.Now()
	f.servers[victim].kill()
	delete(f.servers, victim)
	after := f.await(ctx, "to be back and stay", func(_ *stockClient, s stockSession) bool {
		return s.up && s.server != victim && s.answers >= stockStay
	})
	f.checkMove(victim, killed, up, after)
	f.check(ctx, after, 0)

	// What nobody came for ends; the clients do not notice.
	awaitCount(ctx, t, len(f.clients), slices.Collect(maps.Values(f.servers))...)
	t.Logf("%d reservations that nobody came for are gone after %v", f.surplus(), ms(time.Since(began)))
	last := f.await(ctx, "to be up still", func(_ *stockClient, s stockSession) bool { return s.up })
	for i, c := range f.clients {
		if got, want := last[i].generation, after[i].generation; got != want {
			t.Errorf("%s: session is number %d, want %d still", c, got, want)
		}
	}
	f.check(ctx, last, 0)
}

// startStockFleet starts everything. It ends with the test, and then the servers have nobody left.
func startStockFleet(ctx context.Context, t *testing.T) *stockFleet {
	t.Helper()
	f := &stockFleet{t: t, servers: make(map[string]*serving)}
	for n := 1; n <= 3; n++ {
		s := serve(ctx, t, loopback(n))
		f.servers[s.Listening] = s
	}
	hosts := slices.Sorted(maps.Keys(f.servers))
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error)
	for i, shape := range stockShapes() {
		for j := range 4 {
			from := "127.0." + number(i+1) + "." + number(j+10)
			f.clients = append(f.clients, newStockClient(shape, j == 3, from, hosts))
		}
	}
	for _, c := range f.clients {
		go func() { ended <- c.live(running) }()
	}
	t.Cleanup(func() {
		stop()
		for range f.clients {
			if err := <-ended; err != nil {
				t.Errorf("stock client: %v", err)
			}
		}
		if !t.Failed() {
			leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			awaitCount(leaving, t, 0, slices.Collect(maps.Values(f.servers))...)
		}
	})
	return f
}

// await waits until holds is true for every client, and returns the sessions of that moment.
func (f *stockFleet) await(ctx context.Context, what string, holds func(*stockClient, stockSession) bool) []stockSession {
	f.t.Helper()
	held := make([]stockSession, len(f.clients))
	for i, c := range f.clients {
		for {
			s, changed := c.snapshot()
			if holds(c, s) {
				held[i] = s
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				f.t.Fatalf("wait for %s %s: %v; its session is %+v, its attempts failed with %v", c, what, ctx.Err(), s, c.failures())
			}
		}
	}
	return held
}

func (c *stockClient) failures() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.failed)
}

func (c *stockClient) refused() []unanswered {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.unanswered)
}

// check compares what the clients say with what the servers count and list. Generation is that of every client; 0 for
// any.
func (f *stockFleet) check(ctx context.Context, sessions []stockSession, generation int) {
	f.t.Helper()
	for addr, s := range f.servers {
		want := make(map[string]string)
		for i, session := range sessions {
			if generation != 0 && session.generation != generation {
				f.t.Errorf("%s: session is number %d, want %d", f.clients[i], session.generation, generation)
			}
			if session.server == addr {
				want[session.id] = f.clients[i].shape.clientType
			}
		}
		f.checkList(ctx, s, want)
		f.awaitReservations(ctx, s, len(want))
	}
}

// checkList compares what a server says of its clients.
func (f *stockFleet) checkList(ctx context.Context, s *serving, want map[string]string) {
	f.t.Helper()
	answer, err := clientspb.NewConnectionServiceClient(openIdle(ctx, f.t, s)).GetConnectedClients(ctx, &emptypb.Empty{})
	if err != nil {
		f.t.Fatalf("GetConnectedClients of %s: %v", s.Listening, err)
	}
	got := make(map[string]string)
	for _, client := range answer.GetItems() {
		got[client.GetConnectionId()] = client.GetClientType()
		path := "/opt/app/program"
		if client.GetClientType() == "Elixir" {
			path = ""
		}
		if client.GetVersion() != "1.0.0" || client.GetProcessId() != 4711 || client.GetMachineName() != "machine" || client.GetProcessPath() != path {
			f.t.Errorf("%s lists %v", s.Listening, client)
		}
	}
	if !maps.Equal(got, want) {
		f.t.Errorf("%s lists %v, the clients that are there are %v", s.Listening, got, want)
	}
}

// awaitReservations waits until a server counts its clients and the reservations left there, and no others. The wait is
// for nothing but clients that were a moment ago still being taken in, or out.
func (f *stockFleet) awaitReservations(ctx context.Context, s *serving, clients int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, stockProbeLimit)
	defer cancel()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		got := s.count(f.t.Context())
		least, most := clients, clients
		now := time.Now()
		for _, c := range f.clients {
			atLeast, atMost := c.left(s.Listening, now)
			least, most = least+atLeast, most+atMost
		}
		if least <= got && got <= most {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			f.t.Errorf("%s counts %d, want %d to %d: %d clients, and reservations", s.Listening, got, least, most, clients)
			return
		}
	}
}

// checkMove checks that the clients of the victim, and they alone, have another session elsewhere, and in time.
func (f *stockFleet) checkMove(victim string, killed time.Time, before, after []stockSession) {
	f.t.Helper()
	back := make(map[string][]string)
	for i, c := range f.clients {
		want := 1
		if before[i].server == victim {
			want = 2
			took := after[i].since.Sub(killed)
			back[c.shape.name] = append(back[c.shape.name], ms(took).String())
			if took > stockBack {
				f.t.Errorf("%s: back after %v, want %v at most", c, took, stockBack)
			}
			if after[i].id == before[i].id {
				f.t.Errorf("%s: came back with the same id", c)
			}
		}
		// A blind client may try the dead server first, which begins no session.
		if got := after[i].generation; got != want {
			f.t.Errorf("%s: session is number %d after the kill, want %d", c, got, want)
		}
		if failures := c.failures(); len(failures) > 0 && !c.blind {
			f.t.Errorf("%s: attempts failed with %v", c, failures)
		}
		for _, u := range c.refused() {
			if u.server != victim {
				f.t.Errorf("%s: a server that lives did not answer as it should: %v", c, u.err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(back)) {
		f.t.Logf("%s: back after %s", name, strings.Join(back[name], ", "))
	}
	f.t.Logf("spread %v", f.spread(after))
}

// mostLoved is the server with the most clients.
func (f *stockFleet) mostLoved(sessions []stockSession) string {
	counts := f.byServer(sessions)
	return slices.MaxFunc(slices.Sorted(maps.Keys(counts)), func(a, b string) int { return counts[a] - counts[b] })
}

func (f *stockFleet) byServer(sessions []stockSession) map[string]int {
	counts := make(map[string]int)
	for _, s := range sessions {
		counts[s.server]++
	}
	return counts
}

func (f *stockFleet) spread(sessions []stockSession) []int { return sortedCounts(f.byServer(sessions)) }

// surplus is how many reservations were never consumed.
func (f *stockFleet) surplus() int {
	sum := 0
	for _, c := range f.clients {
		c.mu.Lock()
		for server := range f.servers {
			sum += len(c.reservations[server])
		}
		c.mu.Unlock()
	}
	return sum
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend

package test_test

import (
	"context"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// shedClientsOfShape is how many clients there are of each stock shape.
	shedClientsOfShape = 50
	// shedRounds is how often every server may shed until the fleet is even.
	shedRounds = 3
	// shedPatience is how long all of it may take.
	shedPatience = 2 * time.Minute
)

// shedReport is the object that shed --json documents.
type shedReport struct {
	Address   string  `json:"address"`
	Planned   int     `json:"planned"`
	Told      int     `json:"told"`
	Connected int     `json:"connected"`
	Clients   int     `json:"clients"`
	Servers   int     `json:"servers"`
	Elapsed   float64 `json:"elapsed_ms"`
}

// Clients in the shapes of the stock ones are on three servers, and two more come up: nobody moves by itself. Then each
// server sheds what it has more than the mean, and the fleet is even.
func TestShedEvensOutAStockFleet(t *testing.T) {
	busy(t)
	if runtime.GOOS != "linux" {
		t.Skip("every client needs a loopback address of its own")
	}
	needSignals(t)
	ctx, cancel := context.WithTimeout(t.Context(), shedPatience)
	defer cancel()
	var hosts []string
	for n := 1; n <= 5; n++ {
		hosts = append(hosts, freeAddress(t, loopback(n)))
	}
	peers := "chronicle://" + strings.Join(hosts, ",") + "/?skipTlsValidation=true"
	up := func(hosts []string) {
		for _, host := range hosts {
			serve(ctx, t, "127.0.0.1", "--listen", host, "--admin-loopback", "--peers", peers)
		}
	}
	up(hosts[:3])
	f := &stockFleet{t: t, clients: startStock(t, hosts)}
	ready := func(_ *stockClient, s stockSession) bool { return s.up }
	before := f.await(ctx, "to be up", ready)
	up(hosts[3:])
	t.Logf("%d clients on three of five servers, spread %v", len(f.clients), f.spread(before))

	mean := float64(len(f.clients)) / float64(len(hosts))
	most := int(math.Ceil(1.05 * mean))
	after := before
	round := 0
	for began := time.Now(); slices.Max(f.counts(after, hosts)) > most; {
		if round++; round > shedRounds {
			t.Fatalf("not even after %d rounds: %v, want %d at most", shedRounds, f.counts(after, hosts), most)
		}
		for _, host := range hosts {
			f.shedToMean(ctx, host, len(hosts))
		}
		after = f.await(ctx, "to be up", ready)
		t.Logf("spread %v after %v", f.counts(after, hosts), ms(time.Since(began)))
	}
	moved, twice := 0, 0
	for i := range after {
		switch after[i].generation - before[i].generation {
		case 0:
		case 1:
			moved++
		default:
			moved, twice = moved+1, twice+1
		}
	}
	t.Logf("%d rounds, %d of %d clients moved, %d of them more than once", round, moved, len(f.clients), twice)
	if part := float64(moved) / float64(len(f.clients)); part > 0.45 {
		t.Errorf("%.0f %% of the clients moved, want 45 %% at most", 100*part)
	}
	if twice > 0 {
		t.Errorf("%d clients moved more than once", twice)
	}
}

// counts are the sessions of each server, 0 included.
func (f *stockFleet) counts(sessions []stockSession, hosts []string) []int {
	by := f.byServer(sessions)
	counts := make([]int, len(hosts))
	for i, host := range hosts {
		counts[i] = by[host]
	}
	return counts
}

// shedToMean runs the command against a server, and waits until its clients have left.
func (f *stockFleet) shedToMean(ctx context.Context, host string, servers int) {
	f.t.Helper()
	before := f.generations()
	p := start(f.t, evenkeel, "shed", "--to-mean", "--over", "3s", "--json", "chronicle://"+host+"/?skipTlsValidation=true")
	if got := p.wait(ctx); got != 0 {
		f.t.Fatalf("shed %s ended with status %d", host, got)
	}
	var report shedReport
	strict(f.t, strings.TrimSpace(p.out.String()), &report)
	if report.Told != report.Planned || report.Servers != servers {
		f.t.Errorf("shed says %+v, want all that was planned, of %d servers", report, servers)
	}
	// Those that were told are back before the next server counts.
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for f.generations() < before+report.Told {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			f.t.Fatalf("%d clients of %s were told to move, %d have", report.Told, host, f.generations()-before)
		}
	}
	f.await(ctx, "to be back", func(_ *stockClient, s stockSession) bool { return s.up })
}

// generations is how many sessions all clients have had.
func (f *stockFleet) generations() int {
	sum := 0
	for _, c := range f.clients {
		s, _ := c.snapshot()
		sum += s.generation
	}
	return sum
}

// startStock starts clients of all stock shapes, in turn. They end with the test.
func startStock(t *testing.T, hosts []string) []*stockClient {
	t.Helper()
	var clients []*stockClient
	for j := range shedClientsOfShape {
		for i, shape := range stockShapes() {
			clients = append(clients, newStockClient(shape, false, "127.1."+number(i+1)+"."+number(j+10), hosts))
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error)
	for _, c := range clients {
		go func() { ended <- c.live(running) }()
	}
	t.Cleanup(func() {
		stop()
		for range clients {
			if err := <-ended; err != nil {
				t.Errorf("stock client: %v", err)
			}
		}
	})
	return clients
}

// freeAddress is an address with a port that nobody has now. On its own loopback address nobody is likely to take it.
func freeAddress(t *testing.T, host string) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

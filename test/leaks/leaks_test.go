// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package leaks_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evenkeel-go/evenkeel"
	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	cycles = 500
	// closeWithin bounds all but one in a hundred calls of Close.
	closeWithin = 100 * time.Millisecond
	// patience bounds every wait. Nothing takes as long unless it is broken.
	patience = 20 * time.Second
	// lookInterval is how often what is left is counted: goroutines end without an event.
	lookInterval = 10 * time.Millisecond
)

// kind is a way to open a connection and how far it gets before it is closed.
type kind struct {
	name    string
	target  string
	options []evenkeel.Option
	// until is the event after which it is closed; negative means at once.
	until evenkeel.EventKind
	// reached waits for what no event tells; nil means nothing.
	reached func(ctx context.Context, cycle int) error
}

const atOnce = evenkeel.EventKind(-1)

// kinds are those of the open–close cycles. All are about the same cluster, which is whole.
func kinds(t *testing.T, cluster *evenkeeltest.Cluster) []kind {
	t.Helper()
	const hung = "hung.test"
	if err := cluster.DNS.SetFault("_chronicle._tcp."+hung, "SRV", evenkeeltest.DNSFault{Silent: true}); err != nil {
		t.Fatal(err)
	}
	secure := []evenkeel.Option{evenkeel.WithTLS(cluster.TLS())}
	skip := "/?skipTlsValidation=true"
	half := silentAfterHandshake(t)
	mute, shaken, noise := startTrap(t, silent), startTrap(t, half), startTrap(t, garbage)
	muteProbe, shakenProbe := startTrap(t, silent), startTrap(t, half)
	list := func(addrs ...string) string { return "chronicle://" + strings.Join(addrs, ",") + skip }
	by := func(name string) string { return "chronicle+srv://" + name + "/?srvNameServer=" + cluster.DNS.Addr() }
	refused := refusedAddr(t)
	return []kind{
		{name: "a session by SRV records", target: cluster.SRVConnectionString(), options: secure, until: evenkeel.EventConnected},
		{name: "a session by list", target: cluster.ConnectionString(), options: secure, until: evenkeel.EventConnected},
		{name: "closed at once", target: cluster.SRVConnectionString(), options: secure, until: atOnce},
		{name: "closed while it dials", target: cluster.ConnectionString(), options: secure, until: evenkeel.EventSelected},
		{name: "a certificate that is not trusted", target: cluster.ConnectionString(), until: evenkeel.EventBackingOff},
		{name: "a name that does not exist", target: by("none.test"), until: evenkeel.EventBackingOff},
		{
			name: "a lookup that hangs", target: by(hung), until: evenkeel.EventResolving,
			reached: func(ctx context.Context, cycle int) error {
				return cluster.DNS.Wait(ctx, "_chronicle._tcp."+hung, "SRV", cycle+1)
			},
		},
		{name: "a server that refuses", target: list(refused), until: evenkeel.EventBackingOff},
		{name: "servers that refuse", target: list(refused, refusedAddr(t)), until: evenkeel.EventBackingOff},
		{name: "a server that is silent", target: list(mute.addr()), until: evenkeel.EventSelected, reached: caughtBy(mute)},
		{
			name: "a server that is silent after the handshake", target: list(shaken.addr()), until: evenkeel.EventSelected,
			reached: caughtBy(shaken),
		},
		{name: "a server that speaks no TLS", target: list(noise.addr()), until: evenkeel.EventBackingOff},
		{
			name: "probes that hang", target: list(muteProbe.addr(), shakenProbe.addr()), until: evenkeel.EventResolved,
			reached: caughtBy(muteProbe, shakenProbe),
		},
		{
			name: "a session beside servers that refuse", options: secure, until: evenkeel.EventConnected,
			target: cluster.ConnectionString() + "," + refused,
		},
	}
}

// caughtBy waits until all of the traps have caught the client of the cycle.
func caughtBy(traps ...*trap) func(ctx context.Context, cycle int) error {
	return func(ctx context.Context, cycle int) error {
		for _, tr := range traps {
			if err := tr.await(ctx, cycle+1); err != nil {
				return err
			}
		}
		return nil
	}
}

// Five hundred connections, each opened in another way than the one before and closed in the middle of what it does,
// leave nothing behind: no goroutine, no file descriptor. And Close is quick.
func TestOpenAndCloseLeaveNothingBehind(t *testing.T) {
	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 3})
	ways := kinds(t, cluster)
	awaitServing(t, len(cluster.Servers))
	before := count(t)
	took := make(map[string][]time.Duration)
	for cycle := range cycles {
		k := ways[cycle%len(ways)]
		took[k.name] = append(took[k.name], openAndClose(t, k, cycle/len(ways)))
	}
	awaitCount(t, before)
	report(t, took)
}

// openAndClose opens a connection, waits until it is where its kind wants it, and returns how long Close took.
func openAndClose(t *testing.T, k kind, cycle int) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reached := make(chan struct{})
	events := func(e evenkeel.Event) {
		if e.Kind == k.until {
			select {
			case <-reached:
			default:
				close(reached)
			}
		}
	}
	options := append(k.options[:len(k.options):len(k.options)], evenkeel.WithEvents(events),
		evenkeel.WithLeastConnections(balance.LeastConnectionsConfig{MaxJitter: balance.NoJitter}))
	conn, err := evenkeel.New(k.target, options...)
	if err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	if k.until != atOnce {
		select {
		case <-reached:
		case <-ctx.Done():
			t.Errorf("%s: no %q after %v: %+v", k.name, k.until, patience, conn.Status())
		}
	}
	if k.reached != nil {
		if err := k.reached(ctx, cycle); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
	}
	began := time.Now()
	if err := conn.Close(); err != nil {
		t.Errorf("%s: Close: %v", k.name, err)
	}
	return time.Since(began)
}

// report logs how long Close took and checks the whole of it.
func report(t *testing.T, took map[string][]time.Duration) {
	t.Helper()
	var all []time.Duration
	for _, name := range slices.Sorted(maps.Keys(took)) {
		t.Logf("%-45s %s", name, figures(took[name]))
		all = append(all, took[name]...)
	}
	t.Logf("%-45s %s", fmt.Sprintf("all %d", len(all)), figures(all))
	if got := percentile(all, 99); got >= closeWithin {
		t.Errorf("99 %% of the calls of Close took up to %v, want less than %v", got, closeWithin)
	}
}

func figures(all []time.Duration) string {
	round := func(p int) time.Duration { return percentile(all, p).Round(time.Microsecond) }
	return fmt.Sprintf("Close p50 %v, p99 %v, max %v", round(50), round(99), round(100))
}

// percentile is the smallest value that at least p percent do not exceed.
func percentile(all []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

// counts is what a process has open.
type counts struct{ goroutines, descriptors int }

// count counts. Connections that the name server or a trap has not seen the end of yet are part of it.
func count(t *testing.T) counts {
	t.Helper()
	return counts{goroutines: runtime.NumGoroutine(), descriptors: len(descriptors(t))}
}

// descriptors are the open files and sockets, by number; none where the system has no list of them. The one that reading
// the list takes is among them each time.
func descriptors(t *testing.T) []string {
	t.Helper()
	const list = "/proc/self/fd"
	entries, err := os.ReadDir(list)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	open := make([]string, 0, len(entries))
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(list, entry.Name()))
		if err != nil {
			target = err.Error()
		}
		open = append(open, entry.Name()+" "+target)
	}
	return open
}

// awaitServing waits until both halves of each server run, and the HTTP server that stands ready for its faults: a listener
// takes connections before that.
func awaitServing(t *testing.T, servers int) {
	t.Helper()
	await(t, func() bool {
		all := stacks()
		return strings.Count(all, "\nnet/http.(*Server).Serve(") == 2*servers &&
			strings.Count(all, "\ngoogle.golang.org/grpc.(*Server).Serve(") == servers
	}, func() string { return "not all servers serve:\n" + stacks() })
}

// awaitCount waits until the process has no more open than it had. What a server closes upon our closing takes it a moment.
func awaitCount(t *testing.T, want counts) {
	t.Helper()
	began := time.Now()
	var got counts
	await(t, func() bool {
		got = count(t)
		return got.goroutines <= want.goroutines && got.descriptors <= want.descriptors
	}, func() string {
		return fmt.Sprintf("left are %+v, want %+v\n%s\n%s", got, want, strings.Join(descriptors(t), "\n"), stacks())
	})
	t.Logf("before: %+v; after: %+v, %v after the last Close", want, got, time.Since(began).Round(time.Millisecond))
}

// await looks until something holds that makes no event.
func await(t *testing.T, holds func() bool, otherwise func() string) {
	t.Helper()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatal(otherwise())
		}
	}
}

// stacks are those of all goroutines.
func stacks() string {
	const most = 4 << 20
	text := make([]byte, most)
	return string(text[:runtime.Stack(text, true)])
}

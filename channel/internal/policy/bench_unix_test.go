// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build unix

package policy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// countedPrefix stands before the name of a policy that is watched by a counter.
const countedPrefix = "counted_"

// counter sees what a policy does with its channel.
type counter struct {
	balancer.ClientConn

	pickers atomic.Int64
	ready   atomic.Int64
	last    chan struct{} // closed when want subchannels are ready
	want    int64
}

func (c *counter) UpdateState(state balancer.State) {
	c.pickers.Add(1)
	c.ClientConn.UpdateState(state)
}

func (c *counter) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	listener := opts.StateListener
	opts.StateListener = func(state balancer.SubConnState) {
		listener(state)
		if state.ConnectivityState == connectivity.Ready && c.ready.Add(1) == c.want {
			close(c.last)
		}
	}
	return c.ClientConn.NewSubConn(addrs, opts) //nolint:staticcheck // it is the one way to make a subchannel
}

// countingBuilder puts a counter between a policy and its channel. The channel that is built next has the counter next.
type countingBuilder struct {
	name string
	next *atomic.Pointer[counter]
}

func (b countingBuilder) Name() string { return countedPrefix + b.name }

func (b countingBuilder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	c := b.next.Load()
	c.ClientConn = cc
	return balancer.Get(b.name).Build(c, opts)
}

var nextCounter atomic.Pointer[counter]

func init() { //nolint:gochecknoinits // grpc-go's registry takes no lock
	if os.Getenv(serverVariable) != "" {
		serveUntilTold()
		os.Exit(0) //nolint:forbidigo // as a server it is another program
	}
	for _, name := range append([]string{"round_robin"}, policies()...) {
		balancer.Register(countingBuilder{name: name, next: &nextCounter})
	}
}

// cpuTime is what the process has used, in user and in kernel mode.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// serverVariable has the test program be nothing but the server of BenchmarkStart.
const serverVariable = "EVENKEEL_POLICY_TEST_SERVER"

// serveUntilTold is that server: it prints its port and ends with its standard input.
func serveUntilTold() {
	listener, err := net.Listen("tcp", "0.0.0.0:0") // loopback has no address that stands for all of it
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	_, _ = io.Copy(io.Discard, os.Stdin)
	server.Stop()
	served.Wait()
}

// startServer starts the server as a process of its own, so that its work is not counted.
func startServer(b *testing.B) (port string) {
	b.Helper()
	command := exec.Command(os.Args[0]) //nolint:gosec // it is this program
	command.Env = append(os.Environ(), serverVariable+"=1")
	input, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = input.Close()
		_ = command.Wait()
	})
	if port, err = bufio.NewReader(output).ReadString('\n'); err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(port)
}

// BenchmarkStart connects to 1000 endpoints on loopback, all of them one server that listens on all addresses. It
// reports the CPU time of the client and the number of pickers, and the CPU time without a network: the policy's own.
func BenchmarkStart(b *testing.B) {
	const n = 1000
	port := startServer(b)
	addrs := make([]string, n)
	for i := range addrs {
		addrs[i] = fmt.Sprintf("127.0.%d.%d:%s", 1+i/250, 1+i%250, port)
	}
	for _, name := range append([]string{"round_robin"}, policies()...) {
		b.Run(fmt.Sprintf("policy=%s/endpoints=%d", name, n), func(b *testing.B) {
			cpu, own := time.Hour, time.Hour // the least, with which the rest of the machine had least to do
			var pickers int64
			for b.Loop() {
				used, built := startOnce(b, name, addrs)
				cpu, own = min(cpu, used), min(own, startOffline(b, name, n))
				pickers += built
			}
			b.ReportMetric(float64(cpu.Microseconds())/1000, "cpu-ms")
			b.ReportMetric(float64(own.Microseconds())/1000, "own-cpu-ms")
			b.ReportMetric(float64(pickers)/float64(b.N), "pickers/op")
		})
	}
}

// startOffline returns the CPU time until n subchannels are ready that need no network for it.
func startOffline(b *testing.B, name string, n int) time.Duration {
	b.Helper()
	channel := newFakeChannel()
	channel.hold(true)
	built := balancer.Get(name).Build(channel, balancer.BuildOptions{})
	defer built.Close()
	runtime.GC()
	before := cpuTime(b)
	err := built.UpdateClientConnState(balancer.ClientConnState{ResolverState: resolver.State{Endpoints: addresses(n)}})
	if err != nil {
		b.Fatal(err)
	}
	waitFor(b, "all are dialled", func() bool { return len(channel.subConns()) == n })
	for _, sc := range channel.subConns() {
		sc.become(connectivity.Ready)
	}
	waitFor(b, "all are ready", func() bool { return channel.healthy.Load() == int64(n) })
	<-time.After(20 * time.Millisecond) // the last picker
	return cpuTime(b) - before
}

func startOnce(b *testing.B, name string, addrs []string) (time.Duration, int64) {
	b.Helper()
	w := newLoopback(b)
	c := &counter{want: int64(len(addrs)), last: make(chan struct{})}
	nextCounter.Store(c)
	runtime.GC()
	before := cpuTime(b)
	channel := w.client(countedPrefix+name, "{}")
	channel.update(addrs...)
	<-c.last
	waitFor(b, "the last are published", func() bool { return channel.GetState() == connectivity.Ready })
	<-time.After(20 * time.Millisecond)
	used := cpuTime(b) - before
	pickers := c.pickers.Load()
	_ = channel.Close()
	return used, pickers
}

// BenchmarkUnary compares whole calls over loopback with those of grpc-go's round_robin, pair by pair on one machine at
// one time. It reports the median of the ratios, and the allocations that a call has more.
func BenchmarkUnary(b *testing.B) {
	const pairs, calls = 10, 2000
	for _, name := range policies() {
		b.Run("policy="+name, func(b *testing.B) {
			w := newLoopback(b)
			var addrs []string
			for range 3 {
				addrs = append(addrs, w.start("").addr)
			}
			stock, ours := w.client("round_robin", "{}"), w.client(name, "{}")
			for _, c := range []*client{stock, ours} {
				c.update(addrs...)
				waitFor(b, "all are in rotation", func() bool { return len(c.tally(60)) == len(addrs) })
				c.tally(calls)
			}
			for b.Loop() {
				var ratios []float64
				var extra float64
				for range pairs {
					baseTime, baseAllocs := measure(stock, calls)
					ownTime, ownAllocs := measure(ours, calls)
					ratios = append(ratios, float64(ownTime)/float64(baseTime))
					extra += (ownAllocs - baseAllocs) / pairs
				}
				slices.Sort(ratios)
				b.ReportMetric((ratios[pairs/2-1]+ratios[pairs/2])/2, "ratio")
				b.ReportMetric(extra, "extra-allocs/call")
			}
		})
	}
}

// measure returns the time of calls and the allocations of each, of client and server.
func measure(c *client, calls int) (time.Duration, float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	c.tally(calls)
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	return took, float64(after.Mallocs-before.Mallocs) / float64(calls)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/evenkeel-go/evenkeel/server"
)

// fill registers clients with ids of the usual form and returns copies of the ids in random order. The copies lie in memory
// in the order in which they are used: the id of a real call has just been read and is in the processor's cache.
func fill(tb testing.TB, registry *server.Registry, clients int) []string {
	tb.Helper()
	ids := make([]string, clients)
	for i := range ids {
		ids[i] = fmt.Sprintf("%08x-0000-4000-8000-%012x", rand.Uint32(), i)
		registry.ConnectForTest(ids[i], "192.0.2.1:1")
	}
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	tb.Cleanup(registry.Close)
	all := strings.Join(ids, "")
	for i := range ids {
		ids[i] = all[i*36 : (i+1)*36]
	}
	return ids
}

func BenchmarkKeepAlive(b *testing.B) {
	for _, clients := range []int{1_000, 100_000} {
		b.Run("clients="+strconv.Itoa(clients), func(b *testing.B) {
			registry := server.NewRegistry(server.RegistryConfig{
				StaleAfter: 1 << 62, MaxClients: clients, MaxClientsPerAddress: clients,
			})
			ids := fill(b, registry, clients)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if !registry.KeepAliveForTest(ids[i]) {
					b.Fatal("keep-alive: got an unknown client, want one that is registered")
				}
				if i++; i == len(ids) {
					i = 0
				}
			}
		})
	}
}

func BenchmarkCountOfRegistry(b *testing.B) {
	registry := server.NewRegistry(server.RegistryConfig{StaleAfter: 1 << 62})
	fill(b, registry, 1_000)
	b.ReportAllocs()
	for b.Loop() {
		registry.Count()
	}
}

// BenchmarkCount asks for the count over HTTP/1.1 on one connection, and asks a bare handler that writes one digit in the
// same way. The two take turns in one run, since only their ratio says something.
func BenchmarkCount(b *testing.B) {
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "3") // a client that has gone is the benchmark's own failure below
	})
	registry := server.NewRegistry(server.RegistryConfig{StaleAfter: 1 << 62})
	fill(b, registry, 3)
	ourServer, err := server.New(server.Config{Registry: registry, Plaintext: true})
	if err != nil {
		b.Fatalf("new server: %v", err)
	}
	listener := listen(b)
	ended := make(chan error, 1)
	go func() { ended <- ourServer.Serve(listener) }()
	b.Cleanup(func() {
		ourServer.Close()
		if err := <-ended; err != nil {
			b.Errorf("serve: %v", err)
		}
	})
	for round := range 3 {
		b.Run(fmt.Sprintf("handler=bare/round=%d", round), func(b *testing.B) { askInALoop(b, serveBare(b, bare)) })
		b.Run(fmt.Sprintf("handler=registry/round=%d", round), func(b *testing.B) { askInALoop(b, serveBare(b, registry.Handler())) })
		b.Run(fmt.Sprintf("handler=server/round=%d", round), func(b *testing.B) { askInALoop(b, listener.Addr().String()) })
	}
}

func listen(b *testing.B) net.Listener {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatalf("listen: %v", err)
	}
	return listener
}

// serveBare serves a handler with nothing but net/http.
func serveBare(b *testing.B, handler http.Handler) string {
	b.Helper()
	listener := listen(b)
	s := &http.Server{Handler: handler}
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	b.Cleanup(func() {
		_ = s.Close() // its error is that of a listener that is closed anyway
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			b.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// askInALoop writes requests and reads answers on one connection by hand, so that the client's share is small.
func askInALoop(b *testing.B, addr string) {
	b.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatalf("dial: %v", err)
	}
	defer func() { _ = conn.Close() }()
	request := []byte("GET /connections/count HTTP/1.1\r\nHost: x\r\n\r\n")
	buffer := make([]byte, 4096)
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatalf("write: %v", err)
		}
		// A short answer comes in one piece, with its one digit at the end.
		n, err := conn.Read(buffer)
		if err != nil || buffer[n-1] != '3' {
			b.Fatalf("read: got %q, %v, want an answer that ends in 3", buffer[:n], err)
		}
	}
}

// The promise of the keep-alive path.
func TestKeepAliveAllocatesNothing(t *testing.T) {
	registry := server.NewRegistry(server.RegistryConfig{})
	defer registry.Close()
	registry.ConnectForTest("a", "192.0.2.1:1")
	if got := testing.AllocsPerRun(1000, func() { registry.KeepAliveForTest("a") }); got != 0 {
		t.Errorf("keep-alive: got %v allocations, want 0", got)
	}
	if got := testing.AllocsPerRun(1000, func() { registry.Count() }); got != 0 {
		t.Errorf("count: got %v allocations, want 0", got)
	}
	if registry.KeepAliveForTest("nobody") {
		t.Error("keep-alive of nobody: got a client, want none")
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/server"
)

// A flood from one address leaves the count bounded and other addresses served, on real sockets.
func TestFloodFromOneAddress(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 without being asked")
	}
	f := serveTCP(t, server.Config{Plaintext: true, Registry: server.NewRegistry(server.RegistryConfig{ReservationTTL: time.Hour})})
	const total = 20_000
	made := flood(t, f.addr, total)
	if made != 256 {
		t.Errorf("made: got %d of %d, want the bound of one address, 256", made, total)
	}
	if got := f.Registry().Count(); got != made {
		t.Errorf("count: got %d, want %d", got, made)
	}
	other := *f
	other.dial = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext
	if got := other.reserve(t, other.httpClient(t, 1)); got != http.StatusOK {
		t.Errorf("reserve from another address: got %d, want 200", got)
	}
	connect(t, other.grpcConn(t), named("other"))
	if got := f.Registry().Count(); got != made+1 {
		t.Errorf("count after the other one reserved and came: got %d, want %d", got, made+1)
	}
}

// flood sends reserves on one connection as fast as the server takes them, without waiting for an answer, and returns how
// many were made.
func flood(t *testing.T, addr string, total int) (made int) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer func() { _ = conn.Close() }()
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(bytes.Repeat([]byte("POST /connections/reserve HTTP/1.1\r\nHost: x\r\n\r\n"), total))
		written <- err
	}()
	answers := bufio.NewReader(conn)
	for range total {
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("read an answer: %v", err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatalf("read a body: %v", err)
		}
		_ = response.Body.Close() // it was read to its end
		switch response.StatusCode {
		case http.StatusOK:
			made++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("reserve: got %d, want 200 or 429", response.StatusCode)
		}
	}
	if err := <-written; err != nil {
		t.Errorf("write: %v", err)
	}
	return made
}

// Reserves from tens of thousands of addresses neither pass the bound nor leave anything behind. Not parallel, since it
// looks at the heap of the whole program.
func TestFloodFromManyAddresses(t *testing.T) {
	registry := server.NewRegistry(server.RegistryConfig{})
	handler := registry.Handler()
	floodFrom := func(prefix string) {
		writer := &discardWriter{header: http.Header{}}
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "/connections/reserve", nil)
		if err != nil {
			t.Fatalf("new request: %v", err)
		}
		for i := range 20_000 {
			request.RemoteAddr = fmt.Sprintf("[%s:%x:%x::1]:1", prefix, i>>8, i&255)
			handler.ServeHTTP(writer, request)
		}
	}
	floodFrom("2001:db8")
	if got := registry.Count(); got != 1024 {
		t.Errorf("count: got %d, want the bound, 1024", got)
	}
	if got := registry.BucketsForTest(); got > 4096 {
		t.Errorf("remembered addresses: got %d, want at most 4096", got)
	}
	before := heapInUse()
	floodFrom("2001:db9")
	if grown := heapInUse() - before; grown > 1<<20 {
		t.Errorf("heap after as many again: grown by %d KiB, want it flat", grown>>10)
	}
}

// discardWriter is a response that nobody reads.
type discardWriter struct{ header http.Header }

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *discardWriter) WriteHeader(int)             {}

func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

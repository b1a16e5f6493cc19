// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/evenkeel-go/evenkeel/server"
)

// A flood from one address leaves the count bounded and other addresses served, on real sockets.
func TestFloodFromOneAddress(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 without being asked")
	}
	f := serveTCP(t, server.Config{Plaintext: true})
	const total = 20_000
	var sent, made, refused atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		client := f.httpClient(t, 1)
		wg.Go(func() {
			for sent.Add(1) <= total {
				response, err := client.Post(f.url("/connections/reserve"), "", nil)
				if err != nil {
					t.Errorf("reserve: %v", err)
					return
				}
				_ = response.Body.Close()
				switch response.StatusCode {
				case http.StatusOK:
					made.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("reserve: got %d, want 200 or 429", response.StatusCode)
				}
			}
		})
	}
	wg.Wait()
	if got := f.Registry().Count(); got > 256 || int64(got) > made.Load() {
		t.Errorf("count after %d reserves, %d of them made: got %d, want at most 256", total, made.Load(), got)
	}
	if refused.Load() < total-2*256 {
		t.Errorf("refused: got %d of %d, want nearly all", refused.Load(), total)
	}
	other := *f
	other.dial = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext
	before := f.Registry().Count()
	if got := other.reserve(t, other.httpClient(t, 1)); got != http.StatusOK {
		t.Errorf("reserve from another address: got %d, want 200", got)
	}
	connect(t, other.grpcConn(t), named("other"))
	if got := f.Registry().Count(); got != before+1 {
		t.Errorf("count after the other one reserved and came: got %d, want %d", got, before+1)
	}
}

// Hundreds of thousands of reserves from as many addresses neither pass the bound nor leave anything behind.
func TestFloodFromManyAddresses(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{})
	handler := registry.Handler()
	flood := func(prefix string) {
		writer := &discardWriter{header: http.Header{}}
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "/connections/reserve", nil)
		if err != nil {
			t.Fatalf("new request: %v", err)
		}
		for i := range 100_000 {
			request.RemoteAddr = fmt.Sprintf("[%s:%x:%x::1]:1", prefix, i>>8, i&255)
			handler.ServeHTTP(writer, request)
		}
	}
	flood("2001:db8")
	if got := registry.Count(); got != 1024 {
		t.Errorf("count: got %d, want the bound, 1024", got)
	}
	if got := registry.BucketsForTest(); got > 4096 {
		t.Errorf("remembered addresses: got %d, want at most 4096", got)
	}
	before := heapInUse()
	flood("2001:db9")
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

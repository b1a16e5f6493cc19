// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/server"
)

// ask sends a request to the registry's handler as if it came from an address.
func ask(registry *server.Registry, method, path, from string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(method, path, nil)
	request.RemoteAddr = from
	// Forwarding headers must not matter.
	request.Header.Set("X-Forwarded-For", "203.0.113.9")
	request.Header.Set("Forwarded", "for=203.0.113.9")
	registry.Handler().ServeHTTP(recorder, request)
	return recorder
}

func reserveFrom(registry *server.Registry, from string) *httptest.ResponseRecorder {
	return ask(registry, http.MethodPost, "/connections/reserve", from)
}

func TestReservationCountsAtOnceAndFor30Seconds(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		client := f.httpClient(t, 1)
		if got := f.reserve(t, client); got != http.StatusOK {
			t.Fatalf("reserve: got %d, want 200", got)
		}
		if got := f.count(t, client); got != 1 {
			t.Errorf("count: got %d, want 1", got)
		}
		time.Sleep(10 * time.Second)
		if got := f.reserve(t, client); got != http.StatusOK {
			t.Fatalf("reserve: got %d, want 200", got)
		}
		time.Sleep(20*time.Second - time.Nanosecond)
		if got := f.count(t, client); got != 2 {
			t.Errorf("count just before the first one's end: got %d, want 2", got)
		}
		time.Sleep(time.Nanosecond)
		if got := f.count(t, client); got != 1 {
			t.Errorf("count at the first one's end: got %d, want 1", got)
		}
		time.Sleep(10 * time.Second)
		if got := f.count(t, client); got != 0 {
			t.Errorf("count at the second one's end: got %d, want 0", got)
		}
	})
}

func TestClientComesInPlaceOfItsReservation(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		client, conn := f.httpClient(t, 1), f.grpcConn(t)
		for range 2 {
			if got := f.reserve(t, client); got != http.StatusOK {
				t.Fatalf("reserve: got %d, want 200", got)
			}
			time.Sleep(3 * time.Second)
		}
		s := connect(t, conn, named("one"))
		if got := f.count(t, client); got != 2 {
			t.Errorf("count with the client and one reservation: got %d, want 2", got)
		}
		// The client stood for the older reservation, so it is the younger one that is left: for 3 s longer.
		s.cancel()
		time.Sleep(25 * time.Second)
		if got := f.count(t, client); got != 1 {
			t.Errorf("count when the older one would have ended: got %d, want 1", got)
		}
		time.Sleep(2 * time.Second)
		if got := f.count(t, client); got != 0 {
			t.Errorf("count when the younger one has ended: got %d, want 0", got)
		}
	})
}

func TestReservationsBelongToAnAddress(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, reserves, reservesNext string
		same                         bool
	}{
		{"the same IPv4 address, another port", "192.0.2.1:1000", "192.0.2.1:2000", true},
		{"another IPv4 address", "192.0.2.1:1000", "192.0.2.2:1000", false},
		{"IPv4 written as IPv6", "192.0.2.1:1000", "[::ffff:192.0.2.1]:1000", true},
		{"the same /64", "[2001:db8:0:1::1]:1000", "[2001:db8:0:1:ffff::2]:1000", true},
		{"another /64", "[2001:db8:0:1::1]:1000", "[2001:db8:0:2::1]:1000", false},
		{"link-local with zones", "[fe80::1%eth0]:1000", "[fe80::2%eth1]:1000", true},
		{"no IP addresses", "@", "pipe", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// With one reservation an address, the second request tells whether it is the same address.
			registry := server.NewRegistry(server.RegistryConfig{MaxReservationsPerAddress: 1})
			if got := reserveFrom(registry, tt.reserves).Code; got != http.StatusOK {
				t.Fatalf("first reserve: got %d, want 200", got)
			}
			want := http.StatusOK
			if tt.same {
				want = http.StatusTooManyRequests
			}
			if got := reserveFrom(registry, tt.reservesNext).Code; got != want {
				t.Errorf("second reserve: got %d, want %d", got, want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		config     server.RegistryConfig
		from       func(i int) string
		made       int
		retryAfter string
	}{
		{"of one address", server.RegistryConfig{}, func(int) string { return "192.0.2.1:1" }, 256, "1"},
		{"of one address, few allowed", server.RegistryConfig{MaxReservationsPerAddress: 3}, func(int) string { return "192.0.2.1:1" }, 3, "30"},
		{"in all", server.RegistryConfig{}, func(i int) string { return addressNumber(i) }, 1024, "30"},
		{"in all, few allowed", server.RegistryConfig{MaxReservations: 3, ReservationTTL: 1500 * time.Millisecond}, func(i int) string { return addressNumber(i) }, 3, "2"},
		{"negative numbers are the defaults", server.RegistryConfig{MaxReservations: -1, MaxReservationsPerAddress: -1, ReservationRate: -1, ReservationBurst: -1, ReservationTTL: -1}, func(i int) string { return addressNumber(i) }, 1024, "30"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				registry := server.NewRegistry(tt.config)
				for i := range tt.made {
					if got := reserveFrom(registry, tt.from(i)).Code; got != http.StatusOK {
						t.Fatalf("reserve %d: got %d, want 200", i, got)
					}
				}
				refused := reserveFrom(registry, tt.from(tt.made))
				if refused.Code != http.StatusTooManyRequests || refused.Header().Get("Retry-After") != tt.retryAfter {
					t.Errorf("one too many: got %d, retry after %q, want 429, %s", refused.Code, refused.Header().Get("Retry-After"), tt.retryAfter)
				}
				if got := registry.Count(); got != tt.made {
					t.Errorf("count: got %d, want %d", got, tt.made)
				}
				time.Sleep(30 * time.Second)
				if got := registry.Count(); got != 0 {
					t.Errorf("count after their time: got %d, want 0", got)
				}
				if got := reserveFrom(registry, tt.from(0)).Code; got != http.StatusOK {
					t.Errorf("reserve after their time: got %d, want 200", got)
				}
			})
		})
	}
}

// addressNumber is an address of its own for each number.
func addressNumber(i int) string {
	return "10.1." + strconv.Itoa(i/256) + "." + strconv.Itoa(i%256) + ":1"
}

func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := server.NewRegistry(server.RegistryConfig{MaxReservations: 1 << 20, MaxReservationsPerAddress: 1 << 20})
		spend := func(from string) (made int) {
			for reserveFrom(registry, from).Code == http.StatusOK {
				made++
			}
			return made
		}
		if got := spend("192.0.2.1:1"); got != 256 {
			t.Errorf("burst: got %d, want 256", got)
		}
		if got := spend("192.0.2.2:1"); got != 256 {
			t.Errorf("burst of another address: got %d, want 256", got)
		}
		time.Sleep(time.Second)
		if got := spend("192.0.2.1:1"); got != 200 {
			t.Errorf("a second later: got %d, want 200", got)
		}
		time.Sleep(10 * time.Second)
		if got := spend("192.0.2.1:1"); got != 256 {
			t.Errorf("long after: got %d, want a burst of 256 and no more", got)
		}
	})
}

// Clients reserve, connect and leave at the same time, and at every moment the count is what it must be: no more than the
// ones that may have come and have not surely left, no less than those that have surely come and cannot have left.
func TestCountIsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{ReservationRate: 1e9, ReservationBurst: 1 << 30})
	defer registry.Close()
	const workers, rounds = 8, 200
	var coming, come, leaving, left atomic.Int64 // each only grows
	stop := make(chan struct{})
	var readers, clients sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// What only grows is at most as large before the count, and at least as large after it.
			minCome, minLeft := come.Load(), left.Load()
			got := int64(registry.Count())
			maxComing, maxLeaving := coming.Load(), leaving.Load()
			if got > maxComing-minLeft || got < minCome-maxLeaving {
				t.Errorf("count: got %d, want %d to %d", got, minCome-maxLeaving, maxComing-minLeft)
				return
			}
		}
	})
	for w := range workers {
		clients.Go(func() {
			from := addressNumber(w)
			for range rounds {
				coming.Add(1)
				if got := reserveFrom(registry, from).Code; got != http.StatusOK {
					t.Errorf("reserve: got %d, want 200", got)
				}
				come.Add(1)
				leave := registry.ConnectForTest("client of "+from, from)
				leaving.Add(1)
				leave()
				left.Add(1)
			}
		})
	}
	clients.Wait()
	close(stop)
	readers.Wait()
	if got := registry.Count(); got != 0 {
		t.Errorf("count at the end: got %d, want 0", got)
	}
}

func TestClientWithoutReservationConsumesNone(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{})
	defer registry.Close()
	reserveFrom(registry, "192.0.2.1:1")
	leave := registry.ConnectForTest("a", "192.0.2.2:1")
	if got := registry.Count(); got != 2 {
		t.Errorf("count: got %d, want the client and the other address's reservation", got)
	}
	leave()
	if got := registry.Count(); got != 1 {
		t.Errorf("count after it left: got %d, want 1", got)
	}
	defer registry.ConnectForTest("b", "192.0.2.1:9")()
	if got := registry.Count(); got != 1 {
		t.Errorf("count after the client came: got %d, want 1", got)
	}
}

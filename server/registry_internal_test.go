// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// The table of reservations against the simplest thing that does the same: a list that is searched from its front.
func TestReservationsAgainstAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const ttl, limit, perSource = 10 * time.Second, 12, 5
		table := newReservations(ttl, limit, perSource)
		type entry struct {
			from    source
			expires time.Duration
		}
		var model []entry
		var now time.Duration
		expire := func() {
			table.expire(now)
			model = slices.DeleteFunc(model, func(e entry) bool { return e.expires <= now })
		}
		from := func() source {
			return sourceOf(netip.AddrFrom4([4]byte{192, 0, 2, rapid.Byte().Draw(t, "address") % 4}))
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				expire()
				who, own := from(), 0
				wait := time.Duration(-1)
				for _, e := range slices.Backward(model) {
					if e.from == who {
						own++
						wait = e.expires - now
					}
				}
				if own < perSource {
					wait = -1
					if len(model) >= limit {
						wait = model[0].expires - now
					}
				}
				got, ok := table.add(who, "", now)
				if ok != (wait < 0) || !ok && got != wait {
					t.Fatalf("add: got %v, wait %v, want wait %v", ok, got, wait)
				}
				if ok {
					model = append(model, entry{who, now + ttl})
				}
			},
			"consume": func(t *rapid.T) {
				expire()
				who := from()
				i := slices.IndexFunc(model, func(e entry) bool { return e.from == who })
				if got := table.consume(who); got != (i >= 0) {
					t.Fatalf("consume: got %v, want %v", got, i >= 0)
				}
				if i >= 0 {
					model = slices.Delete(model, i, i+1)
				}
			},
			"wait": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond
				expire()
			},
			"": func(t *rapid.T) {
				if got := table.len(); got != len(model) {
					t.Fatalf("length: got %d, want %d", got, len(model))
				}
				next, ok := table.nextExpiry()
				if ok != (len(model) > 0) || ok && next != model[0].expires {
					t.Fatalf("next expiry: got %v, %v, want that of %v", next, ok, model)
				}
				sources := map[source]bool{}
				for _, e := range model {
					sources[e.from] = true
				}
				if got := len(table.bySource); got != len(sources) {
					t.Fatalf("sources: got %d, want %d: those with a reservation", got, len(sources))
				}
			},
		})
	})
}

// Each round lets all reservations expire and then has them dropped, while others count.
func TestCountNeverHoldsWhatHasExpired(t *testing.T) {
	t.Parallel()
	r := NewRegistry(RegistryConfig{
		ReservationTTL: 10 * time.Microsecond, ReservationRate: 1e12, ReservationBurst: 1 << 40,
		MaxReservations: 1 << 30, MaxReservationsPerAddress: 1 << 30,
	})
	t.Cleanup(r.Close)
	var round atomic.Int64 // positive while all reservations have expired
	var over atomic.Bool
	var counting sync.WaitGroup
	counting.Go(func() {
		for !over.Load() {
			began := round.Load()
			if began <= 0 {
				runtime.Gosched()
				continue
			}
			if n := r.Count(); n != 0 && round.Load() == began {
				t.Errorf("round %d: a count of %d, want 0", began, n)
				return
			}
		}
	})
	for i := range int64(20_000) {
		round.Store(0)
		r.reserve(wish{from: sourceOfText("192.0.2.1:1"), bound: -1})
		r.mu.Lock()
		expires, _ := r.reservations.nextExpiry()
		r.mu.Unlock()
		for r.now() <= expires { // it is over before a timer could tell
			runtime.Gosched()
		}
		round.Store(i + 1)
		r.release("nobody") // which drops what has expired
	}
	over.Store(true)
	counting.Wait()
}

// What is over before it begins ends nobody's stream, though the first one is due at once.
func TestShedEndsNobodyAfterItsContext(t *testing.T) {
	t.Parallel()
	r := NewRegistry(RegistryConfig{})
	t.Cleanup(r.Close)
	for i := range 20 {
		c := newClient(&clientspb.ConnectRequest{ConnectionId: strconv.Itoa(i)}, "")
		if refused := r.connect(c, sourceOfText("192.0.2.1:1"), ""); refused != "" {
			t.Fatal(refused)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if told, err := r.ShedContext(ctx, 20, 0); told != 0 || !errors.Is(err, context.Canceled) {
			t.Fatalf("got %d, %v, want none and the context's error", told, err)
		}
	}
}

func TestLimiterForgetsBucketsThatAreFull(t *testing.T) {
	t.Parallel()
	l := newLimiter(10, 20)
	start := time.Unix(0, 0)
	address := func(i int) source { return sourceOf(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})) }
	for i := range 100 {
		l.allow(address(i), start.Add(time.Duration(i)*time.Millisecond))
	}
	if got := l.byUse.Len(); got != 100 {
		t.Errorf("buckets in use: got %d, want 100", got)
	}
	l.allow(address(0), start.Add(2*time.Second)) // a bucket is full after 2 s
	if got := l.byUse.Len(); got != 100 {
		t.Errorf("buckets after the first one is full: got %d, want the first one new and 99 others", got)
	}
	l.allow(address(0), start.Add(3*time.Second))
	if got := l.byUse.Len(); got != 1 || len(l.bySource) != 1 {
		t.Errorf("buckets after the others are full: got %d and %d, want 1", got, len(l.bySource))
	}
}

// A rate can be so low that the time in which a bucket fills up is beyond what can be told.
func TestLimiterHoldsAtAnyRate(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1e-300, 1e-9, 1e-3, 1} {
		l := newLimiter(rate, 100)
		start, granted := time.Unix(0, 0), 0
		for i := range 300 {
			if l.allow(source{}, start.Add(time.Duration(i)*time.Millisecond)) {
				granted++
			}
		}
		if granted != 100 {
			t.Errorf("at %g a second: got %d of 300 in 300 ms, want the 100 of the burst", rate, granted)
		}
	}
}

func TestSourceOfText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"192.0.2.1:80":             "192.0.2.1/32",
		"[::ffff:192.0.2.1]:80":    "192.0.2.1/32",
		"[2001:db8:1:2:3::4]:80":   "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80":        "fe80::/64",
		"[::1]:80":                 "::/64",
		"@":                        "invalid Prefix",
		"":                         "invalid Prefix",
		"name:80":                  "invalid Prefix",
		"/run/evenkeel.sock":       "invalid Prefix",
		"192.0.2.1":                "invalid Prefix",
		"203.0.113.7, 192.0.2.1:1": "invalid Prefix",
	} {
		if got := sourceOfText(text).prefix.String(); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestIsGRPC(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "application/grpc;charset=utf-8": true,
		"application/grpc-web": false, "application/grpc-web+proto": false, "application/grpcx": false,
		"application/json": false, "": false,
	} {
		request := &http.Request{ProtoMajor: 2, Header: http.Header{"Content-Type": {contentType}}}
		if got := isGRPC(request); got != want {
			t.Errorf("%q: got %v, want %v", contentType, got, want)
		}
		request.ProtoMajor = 1
		if isGRPC(request) {
			t.Errorf("%q over HTTP/1.1: got true, want false", contentType)
		}
	}
}

// FuzzIsGRPC compares the test of the content type with a whole parser of media types.
func FuzzIsGRPC(f *testing.F) {
	for _, seed := range []string{"application/grpc", "application/grpc+proto", "application/grpc; x=y", "application/grpc-web", "text/html", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, contentType string) {
		got := isGRPC(&http.Request{ProtoMajor: 2, Header: http.Header{"Content-Type": {contentType}}})
		mediaType, _, err := mime.ParseMediaType(contentType)
		if err != nil || contentType != strings.ToLower(contentType) || strings.TrimSpace(contentType) != contentType || strings.Contains(contentType, "grpc ") || strings.Contains(contentType, "grpc\t") {
			return // what the parser refuses or corrects, gRPC's own check looks at again
		}
		want := mediaType == "application/grpc" || strings.HasPrefix(mediaType, "application/grpc+")
		if got != want {
			t.Errorf("%q: got %v, want %v for the media type %q", contentType, got, want, mediaType)
		}
	})
}

// FuzzCut checks that what a client says of itself is bounded, stays text, and is not changed but at its end.
func FuzzCut(f *testing.F) {
	for _, seed := range []string{"", "x", strings.Repeat("x", maxText), strings.Repeat("x", maxText+1), "x" + strings.Repeat("é", maxText), strings.Repeat("𝄞", maxText)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := cut(text)
		if len(got) > maxText || !strings.HasPrefix(text, got) {
			t.Fatalf("got %d bytes, a beginning: %v, want at most %d of the beginning", len(got), strings.HasPrefix(text, got), maxText)
		}
		if len(text) <= maxText && got != text {
			t.Errorf("got %q, want a short text unchanged", got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("got %q, want valid UTF-8 as it was", got)
		}
		if utf8.ValidString(text) && len(text) > maxText && len(got) <= maxText-utf8.UTFMax {
			t.Errorf("got %d bytes, want no more cut off than one character", len(got))
		}
	})
}

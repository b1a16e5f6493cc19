// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"
	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/extension"
	"github.com/evenkeel-go/evenkeel/server"
)

const somebody = "192.0.2.1:1000"

// reserveJSON asks for a reservation with an id.
func reserveJSON(t testing.TB, registry *server.Registry, query, accept string) (*httptest.ResponseRecorder, extension.Answer) {
	t.Helper()
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodPost, "/connections/reserve"+query, nil)
	request.RemoteAddr = somebody
	request.Header.Set("Accept", accept)
	registry.Handler().ServeHTTP(recorder, request)
	answer, ok := extension.ParseAnswer(recorder.Body.Bytes())
	if recorder.Code == http.StatusOK && recorder.Body.Len() > 0 && !ok {
		t.Fatalf("cannot read %q", recorder.Body)
	}
	return recorder, answer
}

func TestReserveAnswersJSONOnlyToWhoAsksForIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		accept, query string
		status        int
		json          bool
	}{
		"nothing said":              {"", "?bound=0", 200, false},
		"takes everything":          {"*/*", "?bound=0", 200, false},
		"takes JSON":                {"application/json", "", 200, true},
		"takes JSON among others":   {"text/html, application/json;q=0.5", "?bound=9", 200, true},
		"refuses JSON":              {"text/plain, application/json;q=0.0", "?bound=0", 200, false},
		"a bound that is too large": {"application/json", "?bound=2147483648", 400, false},
		"a bound that is no number": {"application/json", "?bound=many", 400, false},
		"a negative bound":          {"application/json", "?bound=-1", 400, false},
		"two bounds":                {"application/json", "?bound=1&bound=2", 400, false},
		"a bound beyond reason":     {"application/json", "?bound=99999999999999999999", 400, false},
		"a query that is none":      {"application/json", "?bound=%zz", 400, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := server.NewRegistry(server.RegistryConfig{})
			recorder, answer := reserveJSON(t, registry, tt.query, tt.accept)
			if recorder.Code != tt.status {
				t.Fatalf("status %d, want %d", recorder.Code, tt.status)
			}
			if isJSON := answer.ID != ""; isJSON != tt.json {
				t.Errorf("got body %q, want JSON: %v", recorder.Body, tt.json)
			}
			if want := map[bool]int{true: 1}[tt.status == 200]; registry.Count() != want {
				t.Errorf("count %d, want %d", registry.Count(), want)
			}
		})
	}
}

func TestReserveHeedsItsBound(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{})
	for i := range 3 {
		_, answer := reserveJSON(t, registry, "?bound=3", extension.JSON)
		if !answer.Granted || answer.Count != i+1 || answer.Bound == nil || *answer.Bound != 3 {
			t.Fatalf("reservation %d: %+v, want one that was granted", i, answer)
		}
	}
	_, answer := reserveJSON(t, registry, "?bound=3", extension.JSON)
	if answer.Granted || answer.ID != "" || answer.Count != 3 || registry.Count() != 3 {
		t.Errorf("got %+v with a count of %d, want a refusal that leaves no trace", answer, registry.Count())
	}
}

func TestReleaseTakesOneReservationAndNoOther(t *testing.T) {
	t.Parallel()
	registry := server.NewRegistry(server.RegistryConfig{})
	_, mine := reserveJSON(t, registry, "", extension.JSON)
	_, other := reserveJSON(t, registry, "", extension.JSON)
	reserveFrom(registry, somebody)
	if mine.ID == other.ID || len(mine.ID) < 26 {
		t.Fatalf("ids %q and %q, want different ones of 128 bits", mine.ID, other.ID)
	}
	for _, id := range []string{"", "nobody", strings.ToLower(mine.ID), mine.ID[:25], mine.ID + "A", strings.Repeat("A", 500), "%2e%2e"} {
		ask(registry, http.MethodDelete, "/connections/reserve/"+id, somebody)
		if registry.Count() != 3 {
			t.Fatalf("releasing %q changed the count to %d", id, registry.Count())
		}
	}
	for range 2 { // it is idempotent, and says the same each time
		if got := ask(registry, http.MethodDelete, "/connections/reserve/"+mine.ID, "198.51.100.7:1").Code; got != http.StatusNoContent {
			t.Errorf("release: status %d, want 204", got)
		}
		if registry.Count() != 2 {
			t.Errorf("count %d after a release, want 2", registry.Count())
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
		got := ask(registry, method, "/connections/reserve/"+other.ID, somebody)
		if got.Code != http.StatusMethodNotAllowed || got.Header().Get("Allow") != http.MethodDelete {
			t.Errorf("%s: status %d, want 405 and DELETE allowed", method, got.Code)
		}
	}
}

func TestReservationsWithAnIDExpireAndAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := server.NewRegistry(server.RegistryConfig{MaxReservationsPerAddress: 2})
		_, first := reserveJSON(t, registry, "", extension.JSON)
		reserveJSON(t, registry, "", extension.JSON)
		if got, _ := reserveJSON(t, registry, "", extension.JSON); got.Code != http.StatusTooManyRequests {
			t.Errorf("the third one: status %d, want 429", got.Code)
		}
		time.Sleep(30 * time.Second)
		if registry.Count() != 0 {
			t.Errorf("count %d after 30 s, want 0", registry.Count())
		}
		ask(registry, http.MethodDelete, "/connections/reserve/"+first.ID, somebody)
		if registry.Count() != 0 {
			t.Errorf("count %d after a late release, want 0", registry.Count())
		}
	})
}

func TestConnectTakesUpTheReservationThatItNames(t *testing.T) {
	t.Parallel()
	onFakeClock(t, func(t *testing.T, config server.Config) {
		f := serveMemory(t, config)
		client, conn := f.httpClient(t, 1), f.grpcConn(t)
		registry := f.Registry()
		_, named1 := reserveJSON(t, registry, "", extension.JSON)
		f.reserve(t, client) // without an id, from the address of the clients
		connectFrom(metadata.AppendToOutgoingContext(t.Context(), contract.ReservationHeader, named1.ID), t, conn, named("a"))
		if got := registry.Count(); got != 2 {
			t.Errorf("count %d, want 2: the client and the other reservation", got)
		}
		connectFrom(metadata.AppendToOutgoingContext(t.Context(), contract.ReservationHeader, named1.ID), t, conn, named("b"))
		if got := registry.Count(); got != 3 {
			t.Errorf("count %d, want 3: an id that is used up takes nobody else's place", got)
		}
		for id, pairs := range map[string][]string{"twice": {named1.ID, named1.ID}, "nothing": {""}, "no id": {"../x"}} {
			ctx := t.Context()
			for _, value := range pairs {
				ctx = metadata.AppendToOutgoingContext(ctx, contract.ReservationHeader, value)
			}
			s := connectFrom(ctx, t, conn, named(id))
			if got := registry.Count(); got != 4 {
				t.Errorf("count %d with %s told, want 4: what is no id takes nobody's place", got, id)
			}
			s.cancel()
			synctest.Wait()
		}
		connect(t, conn, named("c"))
		if got := registry.Count(); got != 3 {
			t.Errorf("count %d, want 3: without an id it is the oldest one of the address", got)
		}
	})
}

func TestCountTellsArrivalsAndCapacity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := server.NewRegistry(server.RegistryConfig{Capacity: 3})
		header := func() http.Header { return ask(registry, http.MethodGet, "/connections/count", somebody).Header() }
		if rate, said := extension.Rate(header()); rate != 0 || !said || extension.CapacityOf(header()) != 3 {
			t.Errorf("got %v, want a rate of 0 and a capacity of 3", header())
		}
		for range 100 { // 100 a second
			reserveFrom(registry, somebody)
			time.Sleep(10 * time.Millisecond)
		}
		if rate, _ := extension.Rate(header()); rate < 80 || rate > 120 {
			t.Errorf("a rate of %v, want about 100", rate)
		}
		time.Sleep(time.Second)
		if rate, said := extension.Rate(header()); rate != 0 || !said {
			t.Errorf("a rate of %v a second later, want 0", rate)
		}
	})
}

// Who reserves and gives up in a loop is no crowd.
func TestWhatIsGivenUpIsNoArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := server.NewRegistry(server.RegistryConfig{})
		for range 200 {
			_, answer := reserveJSON(t, registry, "", extension.JSON)
			ask(registry, http.MethodDelete, "/connections/reserve/"+answer.ID, somebody)
			time.Sleep(5 * time.Millisecond)
		}
		header := ask(registry, http.MethodGet, "/connections/count", somebody).Header()
		if rate, said := extension.Rate(header); rate != 0 || !said {
			t.Errorf("a rate of %v, want 0: nobody comes", rate)
		}
	})
}

func TestProberSpeaksTheExtensions(t *testing.T) {
	t.Parallel()
	f := serveTCP(t, server.Config{Registry: server.NewRegistry(server.RegistryConfig{Capacity: 2})})
	prober, err := balance.NewProber(balance.ProberConfig{TLS: &tls.Config{RootCAs: f.roots, ServerName: "localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = prober.Close() }()
	host, port, _ := strings.Cut(f.addr, ":")
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := discover.Endpoint{Host: host, Port: uint16(number)}
	made, err := prober.Reserve(t.Context(), endpoint, balance.ReserveRequest{Identify: true, Bound: 1})
	if err != nil || !made.Made || made.ID == "" || made.Count != 1 {
		t.Fatalf("got %+v, %v, want a reservation with an id", made, err)
	}
	refused, err := prober.Reserve(t.Context(), endpoint, balance.ReserveRequest{Identify: true, Bound: 1})
	if err != nil || refused.Made || !refused.Refused || refused.Count != 1 {
		t.Errorf("got %+v, %v, want a refusal", refused, err)
	}
	count, err := prober.Count(t.Context(), endpoint)
	if err != nil || count.Connections != 1 || count.Load == nil || count.Load.Capacity != 2 || !(count.Load.ArrivalRate >= 0) {
		t.Errorf("got %+v, %v, want a count of 1 and what else the server says", count, err)
	}
	if err := prober.Release(t.Context(), endpoint, made.ID); err != nil || f.Registry().Count() != 0 {
		t.Errorf("release: %v with a count of %d, want 0", err, f.Registry().Count())
	}
	if err := prober.Release(t.Context(), endpoint, "../count"); err == nil {
		t.Error("an id that leads elsewhere was sent")
	}
}

// Whatever comes in whatever order, the count is that of clients and live reservations, and never negative.
func TestCountIsExactInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		registry := server.NewRegistry(server.RegistryConfig{})
		var ids []string
		live, anonymous := map[string]bool{}, 0
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 2).Draw(rt, "step") {
			case 0:
				bound := rapid.IntRange(0, 20).Draw(rt, "bound")
				before := registry.Count()
				_, answer := reserveJSON(t, registry, fmt.Sprintf("?bound=%d", bound), extension.JSON)
				if answer.Granted != (before < bound) {
					rt.Fatalf("granted %v with a count of %d and a bound of %d", answer.Granted, before, bound)
				}
				if answer.Granted {
					ids, live[answer.ID] = append(ids, answer.ID), true
				}
			case 1:
				reserveFrom(registry, somebody)
				anonymous++
			default:
				if len(ids) > 0 {
					id := rapid.SampledFrom(ids).Draw(rt, "id")
					ask(registry, http.MethodDelete, "/connections/reserve/"+id, somebody)
					delete(live, id)
				}
			}
			if got, want := registry.Count(), len(live)+anonymous; got != want {
				rt.Fatalf("count %d, want %d", got, want)
			}
		}
	})
}

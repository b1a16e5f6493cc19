// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// nearest prefers the servers of one rack and leaves the rest to another strategy.
type nearest struct {
	rack string
	rest balance.Strategy
}

func (n nearest) Select(ctx context.Context, candidates []discover.Endpoint) (balance.Selection, error) {
	var near []discover.Endpoint
	for _, candidate := range candidates {
		if strings.HasSuffix(candidate.Host, "."+n.rack) {
			near = append(near, candidate)
		}
	}
	if len(near) > 0 {
		candidates = near
	}
	return n.rest.Select(ctx, candidates)
}

// A strategy of one's own is one method. It can make use of others.
func ExampleStrategy() {
	strategy := nearest{rack: "rack2", rest: balance.NewRoundRobin()}
	selection, err := strategy.Select(context.Background(), []discover.Endpoint{
		{Host: "node1.rack1", Port: 35000},
		{Host: "node2.rack2", Port: 35000},
		{Host: "node3.rack3", Port: 35000},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(selection.Endpoint)
	// Output: node2.rack2:35000
}

// ledger is a Prober that knows the counts already.
type ledger map[string]int

func (l ledger) Count(_ context.Context, endpoint discover.Endpoint) (balance.Count, error) {
	count, ok := l[endpoint.Host]
	if !ok {
		return balance.Count{}, fmt.Errorf("count %s: not in the ledger", endpoint)
	}
	return balance.Count{Connections: count}, nil
}

func (l ledger) Reserve(_ context.Context, endpoint discover.Endpoint, _ balance.ReserveRequest) (balance.Reservation, error) {
	l[endpoint.Host]++
	return balance.Reservation{Made: true}, nil
}

func ExampleNewLeastConnections() {
	counts := ledger{"node1": 12, "node2": 10, "node3": 11}
	strategy, err := balance.NewLeastConnections(balance.LeastConnectionsConfig{
		MaxJitter: balance.NoJitter, // a fleet should keep the default
		Prober:    counts,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	selection, err := strategy.Select(context.Background(), []discover.Endpoint{
		{Host: "node1", Port: 35000}, {Host: "node2", Port: 35000}, {Host: "node3", Port: 35000}, {Host: "node4", Port: 35000},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, observation := range selection.Observations {
		if observation.Err != nil {
			fmt.Println(observation.Endpoint, observation.Err)
			continue
		}
		fmt.Println(observation.Endpoint, observation.Count.Connections)
	}
	fmt.Println("picked", selection.Endpoint, "reserved", selection.Reservation.Made)
	// Output:
	// node1:35000 12
	// node2:35000 10
	// node3:35000 11
	// node4:35000 count node4:35000: not in the ledger
	// picked node2:35000 reserved true
}

func ExampleNewRoundRobin() {
	strategy := balance.NewRoundRobin()
	candidates := []discover.Endpoint{{Host: "node1", Port: 35000}, {Host: "node2", Port: 35000}}
	first, err := strategy.Select(context.Background(), candidates)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := strategy.Select(context.Background(), candidates)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("another one each time:", first.Endpoint.Host != second.Endpoint.Host)
	// Output: another one each time: true
}

func ExampleNewRandom() {
	_, err := balance.NewRandom().Select(context.Background(), nil)
	fmt.Println(err)
	// Output: balance: no candidates
}

// A prober asks servers over HTTPS and keeps its connections for the next question.
func ExampleNewProber() {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/connections/count" {
			fmt.Fprint(w, 42)
		}
	}))
	defer server.Close()
	addr := netip.MustParseAddrPort(server.Listener.Addr().String())
	prober, err := balance.NewProber(balance.ProberConfig{TLS: &tls.Config{
		RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = prober.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	count, err := prober.Count(ctx, discover.Endpoint{Host: addr.Addr().String(), Port: addr.Port()})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(count.Connections, "connections, told over", count.Proto)
	// Output: 42 connections, told over HTTP/1.1
}

// An attempt goes through the endpoints, one priority after the other.
func ExampleAttempt() {
	endpoints := []discover.Endpoint{
		{Host: "node1", Port: 35000, Priority: 0},
		{Host: "node2", Port: 35000, Priority: 0},
		{Host: "backup", Port: 35000, Priority: 10},
	}
	lost := "node2:35000" // its session has just ended
	attempt := balance.NewAttempt(endpoints, nil, lost)
	for candidates := attempt.Candidates(time.Now()); candidates != nil; candidates = attempt.Candidates(time.Now()) {
		fmt.Println("try", candidates[0]) // where a Strategy would pick
		attempt.Failed(candidates[0])
	}
	// Output:
	// try node1:35000
	// try node2:35000
	// try backup:35000
}

// An endpoint that fails again and again is avoided for longer and longer, until a session on it has lasted.
func ExamplePenalties() {
	var penalties balance.Penalties
	now := time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC)
	penalties.Fail("node1:35000", now)
	fmt.Println("after 29 s:", penalties.Penalised("node1:35000", now.Add(29*time.Second)))
	fmt.Println("after 30 s:", penalties.Penalised("node1:35000", now.Add(30*time.Second)))

	again := now.Add(time.Minute)
	penalties.Fail("node1:35000", again)
	fmt.Println("again, after 59 s:", penalties.Penalised("node1:35000", again.Add(59*time.Second)))

	penalties.Clear("node1:35000")
	fmt.Println("cleared:", penalties.Penalised("node1:35000", again))
	// Output:
	// after 29 s: true
	// after 30 s: false
	// again, after 59 s: true
	// cleared: false
}

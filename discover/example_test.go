// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

func ExampleStatic() {
	resolver := discover.Static(
		discover.Endpoint{Host: "node1.example", Port: 35000},
		discover.Endpoint{Host: "::1", Port: 35000},
	)
	endpoints, err := resolver.Resolve(context.Background())
	fmt.Println(endpoints, err)
	// Output: [node1.example:35000 [::1]:35000] <nil>
}

func ExampleSRV() {
	dns, err := evenkeeltest.NewDNS(evenkeeltest.DNSConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = dns.Close() }()
	dns.SetSRV("_chronicle._tcp.cluster.test",
		evenkeeltest.SRV{Target: "backup.cluster.test", Port: 35000, Priority: 2},
		evenkeeltest.SRV{Target: "node1.cluster.test", Port: 35000, Priority: 1, Weight: 10})
	dns.SetAddrs("node1.cluster.test", netip.MustParseAddr("192.0.2.1"))

	resolver, err := discover.SRV(discover.SRVConfig{Name: "cluster.test", NameServer: dns.Addr()})
	if err != nil {
		fmt.Println(err)
		return
	}
	endpoints, err := resolver.Resolve(context.Background())
	if len(endpoints) == 0 {
		fmt.Println(err)
		return
	}
	for _, endpoint := range endpoints {
		fmt.Println(endpoint, endpoint.Priority, endpoint.Weight, endpoint.Addrs)
	}
	// Output:
	// node1.cluster.test:35000 1 10 [192.0.2.1:35000]
	// backup.cluster.test:35000 2 0 []
}

func ExampleLastGood() {
	dns, err := evenkeeltest.NewDNS(evenkeeltest.DNSConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = dns.Close() }()
	dns.SetSRV("_chronicle._tcp.cluster.test", evenkeeltest.SRV{Target: "node1.cluster.test", Port: 35000})
	resolver, err := discover.SRV(discover.SRVConfig{Name: "cluster.test", NameServer: dns.Addr()})
	if err != nil {
		fmt.Println(err)
		return
	}
	resolver = discover.LastGood(resolver)
	_, _ = resolver.Resolve(context.Background())

	dns.Remove("_chronicle._tcp.cluster.test")
	endpoints, err := resolver.Resolve(context.Background())
	_, stale := errors.AsType[*discover.StaleError](err)
	fmt.Println(endpoints, stale, errors.Is(err, discover.ErrNoSuchName))
	// Output: [node1.cluster.test:35000] true true
}

func ExampleNewDNS() {
	dns, err := evenkeeltest.NewDNS(evenkeeltest.DNSConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = dns.Close() }()
	dns.SetAddrs("api.test", netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"))

	resolver, err := discover.NewDNS(discover.DNSConfig{Name: "api.test", Port: 8080, NameServer: dns.Addr()})
	if err != nil {
		fmt.Println(err)
		return
	}
	endpoints, err := resolver.Resolve(context.Background())
	if len(endpoints) == 0 {
		fmt.Println(err)
		return
	}
	for _, endpoint := range endpoints {
		fmt.Println(endpoint, "verified as", endpoint.VerifyName())
	}
	// Output:
	// 192.0.2.1:8080 verified as api.test
	// 192.0.2.2:8080 verified as api.test
}

func ExamplePoller() {
	dns, err := evenkeeltest.NewDNS(evenkeeltest.DNSConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = dns.Close() }()
	dns.SetAddrs("api.test", netip.MustParseAddr("192.0.2.1"))
	resolver, err := discover.NewDNS(discover.DNSConfig{Name: "api.test", Port: 8080, NameServer: dns.Addr()})
	if err != nil {
		fmt.Println(err)
		return
	}

	changes := make(chan discover.PollResult, 8)
	poller, err := discover.NewPoller(discover.PollerConfig{
		Resolver:    resolver,
		MinInterval: discover.LeastInterval,
		OnResult: func(result discover.PollResult) {
			if result.Changed {
				changes <- result
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer poller.Close()
	show := func(r discover.PollResult) {
		fmt.Println(r.Endpoints, "added", r.Added, "removed", r.Removed, "kept", r.Kept)
	}
	show(<-changes)

	dns.SetAddrs("api.test", netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"))
	poller.ResolveNow() // or wait for the interval
	show(<-changes)
	// Output:
	// [192.0.2.1:8080] added 1 removed 0 kept 0
	// [192.0.2.1:8080 192.0.2.2:8080] added 1 removed 0 kept 1
}

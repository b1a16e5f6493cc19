// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

const (
	// dnsPortTries is how many free UDP ports are tried until one is free for TCP as well.
	dnsPortTries = 20
	// dnsKeptQueries is how many questions are kept, the newest; dnsCounted of how many names and types they are counted.
	dnsKeptQueries = 10_000
	dnsCounted     = 100_000
)

// DNSConfig says where a name server listens. The zero value is a free port of 127.0.0.1.
type DNSConfig struct {
	// Addr is the address for UDP and TCP, such as "[::1]:0"; port 0 is a free one, the same for both. Empty means
	// "127.0.0.1:0".
	Addr string
}

// DNS is a name server on UDP and TCP.
//
// It answers with authority for every name: with the records set for it, else with NODATA when the name or one below it
// has other records, else with NXDOMAIN. CNAMEs are followed as far as it knows them. Replies that are too large for
// UDP are truncated, so that the client asks again over TCP. It keeps the newest 10 000 questions it was asked. All
// methods are safe for concurrent use and take effect with the next question.
type DNS struct {
	addr    string
	servers []*dns.Server
	running sync.WaitGroup // of the servers
	done    chan struct{}
	close   func() error // shutDown, once

	mu      sync.Mutex
	zone    dnsZone             // guarded by mu
	faults  map[string]DNSFault // guarded by mu; by name and type
	queries []DNSQuery          // guarded by mu; the newest, and up to as many older ones
	counts  map[string]int      // guarded by mu; by name and type
	arrived chan struct{}       // guarded by mu; closed and replaced when a question comes
}

// NewDNS starts a name server without records. The error says what keeps it from listening. The caller closes it.
func NewDNS(config DNSConfig) (*DNS, error) {
	if config.Addr == "" {
		config.Addr = "127.0.0.1:0"
	}
	packets, listener, err := listenDNS(config.Addr)
	if err != nil {
		return nil, fmt.Errorf("start DNS server: %w", err)
	}
	d := &DNS{
		addr:    listener.Addr().String(),
		done:    make(chan struct{}),
		zone:    make(dnsZone),
		faults:  make(map[string]DNSFault),
		counts:  make(map[string]int),
		arrived: make(chan struct{}),
	}
	d.close = sync.OnceValue(d.shutDown)
	d.servers = []*dns.Server{{PacketConn: packets}, {Listener: listener}}
	if err := d.start(); err != nil {
		// What did start ends with its socket.
		err = errors.Join(err, packets.Close(), listener.Close())
		d.running.Wait()
		return nil, fmt.Errorf("start DNS server: %w", err)
	}
	return d, nil
}

// start returns when all servers take questions, or when one has failed to.
func (d *DNS) start() error {
	started := make(chan error, 2*len(d.servers))
	for _, server := range d.servers {
		server.Handler = dns.HandlerFunc(d.serve)
		server.NotifyStartedFunc = func() { started <- nil }
		d.running.Go(func() {
			if err := server.ActivateAndServe(); err != nil {
				started <- err
			}
		})
	}
	for range d.servers {
		if err := <-started; err != nil {
			return err
		}
	}
	return nil
}

// StartDNS starts a name server that is closed when the test ends. A failure to start ends the test.
func StartDNS(tb testing.TB, config DNSConfig) *DNS {
	tb.Helper()
	d, err := NewDNS(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Errorf("close DNS server: %v", err)
		}
	})
	return d
}

// listenDNS takes one port for UDP and TCP.
func listenDNS(addr string) (net.PacketConn, net.Listener, error) {
	var lastErr error
	for range dnsPortTries {
		packets, err := net.ListenPacket("udp", addr)
		if err != nil {
			return nil, nil, err
		}
		listener, err := net.Listen("tcp", packets.LocalAddr().String())
		if err == nil {
			return packets, listener, nil
		}
		lastErr = errors.Join(err, packets.Close())
	}
	return nil, nil, lastErr
}

// Addr returns "host:port", with IPv6 in brackets, as it is written behind srvNameServer.
func (d *DNS) Addr() string { return d.addr }

// Close stops the server and waits until all of it has ended; held and silent questions are let go. Calls after the
// first return the same.
func (d *DNS) Close() error { return d.close() }

func (d *DNS) shutDown() error {
	close(d.done)
	var errs []error
	for _, server := range d.servers {
		errs = append(errs, server.Shutdown())
	}
	d.running.Wait()
	return errors.Join(errs...)
}

// DNSQuery is a question that the server was asked.
type DNSQuery struct {
	// Name is the name in lower case without its final dot.
	Name string
	// Type is the type, such as "SRV".
	Type string
	// Network is "udp" or "tcp".
	Network string
	// Packed is the whole message.
	Packed []byte
}

// Queries returns the newest 10 000 questions that came, in their order.
func (d *DNS) Queries() []DNSQuery {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.queries[max(0, len(d.queries)-dnsKeptQueries):])
}

// Count returns how many questions came for a name and a type, over UDP and TCP, of which there may be more than Queries
// returns.
func (d *DNS) Count(name, qtype string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[dnsKey(name, qtype)]
}

// noteLocked keeps and counts a question.
func (d *DNS) noteLocked(query DNSQuery) {
	if len(d.queries) == 2*dnsKeptQueries {
		n := copy(d.queries, d.queries[dnsKeptQueries:])
		clear(d.queries[n:])
		d.queries = d.queries[:n]
	}
	d.queries = append(d.queries, query)
	key := dnsKey(query.Name, query.Type)
	if d.counts[key] > 0 || len(d.counts) < dnsCounted {
		d.counts[key]++
	}
}

// Wait returns when at least n questions have come for a name and a type, or with the error of ctx.
func (d *DNS) Wait(ctx context.Context, name, qtype string, n int) error {
	for {
		d.mu.Lock()
		count, arrived := d.counts[dnsKey(name, qtype)], d.arrived
		d.mu.Unlock()
		if count >= n {
			return nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d questions for %s %s, %d came: %w", n, name, qtype, count, ctx.Err())
		}
	}
}

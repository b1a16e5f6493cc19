// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package test_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// knotTries is how often another port is tried: somebody else may take it between our look and Knot's start.
const knotTries = 5

// knot is a name server that runs.
type knot struct {
	*process

	addr string // it answers here
}

// startKnot runs Knot DNS, a name server that other people wrote, in a process of its own. The zones are the records by
// name of the zone, in the form of a zone file and relative to it; each zone gets a SOA and NS record.
func startKnot(ctx context.Context, t *testing.T, zones map[string][]string) *knot {
	t.Helper()
	path := find(t, "knotd")
	for range knotTries {
		addr := freeDNSAddr(t)
		running := start(t, path, "-c", writeKnot(t, addr, zones))
		if awaitKnot(ctx, t, running, addr, zones) {
			return &knot{process: running, addr: addr}
		}
	}
	t.Fatalf("knotd has ended %d times", knotTries)
	return nil
}

// freeDNSAddr finds a port that is free over UDP and TCP.
func freeDNSAddr(t *testing.T) string {
	t.Helper()
	for range 20 {
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := packets.LocalAddr().String()
		listener, err := net.Listen("tcp", addr)
		if err == nil {
			err = listener.Close()
		}
		if err = errors.Join(err, packets.Close()); err == nil {
			return addr
		}
	}
	t.Fatal("no port is free over UDP and TCP")
	return ""
}

// writeKnot writes the configuration and the zones, and returns the path of the former.
func writeKnot(t *testing.T, addr string, zones map[string][]string) string {
	t.Helper()
	directory := t.TempDir()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	var config strings.Builder
	fmt.Fprintf(&config, "server:\n  listen: %s@%s\n  rundir: %q\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n",
		host, port, directory)
	fmt.Fprintf(&config, "database:\n  storage: %q\nlog:\n- target: stderr\n  any: warning\n", directory)
	fmt.Fprintf(&config, "acl:\n- id: update\n  address: 127.0.0.1\n  action: update\n")
	fmt.Fprintf(&config, "template:\n- id: default\n  storage: %q\n  file: %q\n  zonefile-sync: -1\n  acl: update\nzone:\n", directory, "%s.zone")
	for zone, records := range zones {
		fmt.Fprintf(&config, "- domain: %s\n", zone)
		lines := append([]string{
			"$ORIGIN " + zone + ".", "$TTL 5", "@ SOA ns hostmaster 1 3600 600 86400 5", "@ NS ns", "ns A 127.0.0.1",
		}, records...)
		write(t, filepath.Join(directory, zone+".zone"), strings.Join(lines, "\n")+"\n")
	}
	path := filepath.Join(directory, "knot.conf")
	write(t, path, config.String())
	return path
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// awaitKnot waits until the name server answers for all zones; false means that it has ended instead.
func awaitKnot(ctx context.Context, t *testing.T, knot *process, addr string, zones map[string][]string) bool {
	t.Helper()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for !knows(ctx, addr, zones) {
		select {
		case <-ticker.C:
		case <-knot.ended:
			return false
		case <-ctx.Done():
			t.Fatalf("wait for knotd: %v", ctx.Err())
		}
	}
	return true
}

// knows says whether a name server has the zones.
func knows(ctx context.Context, addr string, zones map[string][]string) bool {
	client := dns.Client{Timeout: time.Second}
	for zone := range zones {
		question := new(dns.Msg).SetQuestion(dns.Fqdn(zone), dns.TypeSOA)
		reply, _, err := client.ExchangeContext(ctx, question, addr)
		if err != nil || reply.Rcode != dns.RcodeSuccess || len(reply.Answer) == 0 {
			return false
		}
	}
	return true
}

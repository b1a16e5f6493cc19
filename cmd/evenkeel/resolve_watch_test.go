// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

func loopback(last ...byte) []netip.Addr {
	addrs := make([]netip.Addr, 0, len(last))
	for _, b := range last {
		addrs = append(addrs, netip.AddrFrom4([4]byte{127, 0, 0, b}))
	}
	return addrs
}

func watching(target string, more ...string) []string {
	return append([]string{"resolve", "--watch", "--interval", "100ms", "--min-interval", "100ms", target}, more...)
}

// withoutTimes takes out of a line what differs from run to run.
func withoutTimes(line string) string {
	line = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`).ReplaceAllString(line, "TIME")
	return regexp.MustCompile(` in [0-9.]+(µs|ms|s)`).ReplaceAllString(line, " in TOOK")
}

func TestResolveWatchesAName(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs("api.test", loopback(1, 2)...)
	r := begin(t, watching("dns://"+dns.Addr()+"/api.test:8080")...)
	next := func(want string) {
		t.Helper()
		for {
			got := withoutTimes(r.line())
			if got == want {
				return
			}
			if !strings.HasPrefix(got, "TIME  resolved  ") && !strings.HasPrefix(got, "TIME  failed    ") {
				t.Errorf("got %q, want %q", got, want)
				return
			}
		}
	}
	next("TIME  resolved  2 endpoints in TOOK")
	next("TIME    + 127.0.0.1:8080")
	next("TIME    + 127.0.0.2:8080")
	dns.SetAddrs("api.test", loopback(2, 3)...)
	next("TIME  resolved  2 endpoints in TOOK")
	next("TIME    - 127.0.0.1:8080")
	next("TIME    + 127.0.0.3:8080")
	dns.Remove("api.test")
	next("TIME  failed    no_such_name in TOOK; 2 endpoints stay: look up A and AAAA records of api.test at name server " +
		dns.Addr() + ": no such name (NXDOMAIN); check the name, or add the records to its zone")
	dns.SetAddrs("api.test", append(loopback(1), netip.IPv6Loopback())...)
	next("TIME  resolved  1 endpoint in TOOK")
	next("TIME    - 127.0.0.2:8080")
	next("TIME    - 127.0.0.3:8080")
	next("TIME    + api.test:8080  [::1]:8080, 127.0.0.1:8080")
	if _, status := r.end(); status != exitDone || r.stderr.Len() > 0 {
		t.Errorf("status %d, standard error %q; want 0 and nothing", status, r.stderr)
	}
}

func TestResolveWatchesSRVRecordsForAProgram(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	const owner = "_chronicle._tcp.cluster.test"
	dns.SetAddrs("n1.test", loopback(1)...)
	dns.SetSRV(owner, evenkeeltest.SRV{Target: "n1.test", Port: 1, Weight: 5})
	for name, target := range map[string]string{
		"srv":           "srv://" + dns.Addr() + "/" + owner,
		"chronicle+srv": "chronicle+srv://cluster.test/?srvNameServer=" + dns.Addr(),
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, watching(target, "--json")...)
			read := func() watchEvent {
				t.Helper()
				var e watchEvent
				if err := json.Unmarshal([]byte(r.line()), &e); err != nil {
					t.Fatal(err)
				}
				return e
			}
			first, added := read(), read()
			if first.Event != "resolved" || first.Took == nil || first.Endpoints == nil || *first.Endpoints != 1 ||
				first.Next == nil || !first.Next.After(first.Time) || first.Server != nil {
				t.Errorf("the first lookup is told as %+v", first)
			}
			want := &resolvedEndpoint{Endpoint: "n1.test:1", Host: "n1.test", Port: 1, Weight: 5, Addresses: []string{"127.0.0.1:1"}}
			if diff := cmp.Diff(want, added.Server); diff != "" || added.Event != "added" || added.Took != nil {
				t.Errorf("the first server is told as %+v, -want +got:\n%s", added, diff)
			}
			dns.SetSRV(owner, evenkeeltest.SRV{Target: "n1.test", Port: 1, Weight: 7})
			t.Cleanup(func() { dns.SetSRV(owner, evenkeeltest.SRV{Target: "n1.test", Port: 1, Weight: 5}) })
			e := read()
			for e.Event == "resolved" {
				e = read()
			}
			if e.Event != "changed" || e.Server == nil || e.Server.Weight != 7 {
				t.Errorf("another weight is told as %+v", e)
			}
			if err := dns.SetFault(owner, "", evenkeeltest.DNSFault{Code: "REFUSED"}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(dns.ClearFaults)
			for e = read(); e.Event == "resolved"; {
				e = read()
			}
			if e.Event != "failed" || e.Class != discover.ClassServerFailed || e.Failures != 1 || *e.Endpoints != 1 ||
				!strings.Contains(e.Error, "REFUSED") {
				t.Errorf("a failure is told as %+v", e)
			}
			if _, status := r.end(); status != exitDone {
				t.Errorf("status %d: %s", status, r.stderr)
			}
		})
	}
}

// A channel leaves a target without addresses out, and so does what shows what a channel finds.
func TestSRVTargetsWithoutAddressesAreLeftOut(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	const owner = "_grpc._tcp.api.test"
	dns.SetAddrs("n1.test", loopback(1)...)
	dns.SetSRV(owner, evenkeeltest.SRV{Target: "n1.test", Port: 9}, evenkeeltest.SRV{Target: "n2.test", Port: 9})
	system := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, dns.Addr())
	}}
	asked, err := openSRVWith(system, dns.Addr(), owner)
	if err != nil {
		t.Fatal(err)
	}
	endpoints, err := asked.resolver.Resolve(t.Context())
	if len(endpoints) != 1 || endpoints[0].Host != "n1.test" || len(endpoints[0].Addrs) != 1 {
		t.Errorf("got %v, want n1.test with its address", endpoints)
	}
	w := watch{palette: newPalette(false), elsewhere: inSRV}
	got := w.outcome(discover.PollResult{Endpoints: endpoints, Err: err, Class: discover.ErrorClass(err)})
	if !strings.HasPrefix(got, "resolved  1 endpoint in ") || !strings.Contains(got, "; partial: ") || !strings.Contains(got, "n2.test:9: lookup n2.test") {
		t.Errorf("got %q, want one endpoint, and a word about the other", got)
	}
}

// An interrupt during a lookup that hangs is not held up by it.
func TestResolveWatchIsInterruptedDuringALookup(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	if err := dns.SetFault("", "", evenkeeltest.DNSFault{Silent: true}); err != nil {
		t.Fatal(err)
	}
	r := begin(t, watching("dns://"+dns.Addr()+"/api.test")...)
	if err := dns.Wait(t.Context(), "api.test", "A", 1); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, status := r.end(); status != exitDone || r.stderr.Len() > 0 {
		t.Errorf("status %d, standard error %q; want 0 and nothing", status, r.stderr)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v to end", took)
	}
}

func TestResolveReadsTargets(t *testing.T) {
	t.Parallel()
	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
	dns.SetAddrs("api.test", loopback(1, 2)...)
	dns.SetAddrs("n1.test", loopback(1)...)
	dns.SetSRV("_grpc._tcp.api.test", evenkeeltest.SRV{Target: "n1.test", Port: 9, Priority: 1})
	for _, test := range []struct {
		target string
		want   []string // endpoints
		text   string   // or what standard error says
		status int
	}{
		{"dns://" + dns.Addr() + "/api.test", []string{"127.0.0.1:443", "127.0.0.2:443"}, "", exitDone},
		{"DNS://" + dns.Addr() + "/api.test.:80", []string{"127.0.0.1:80", "127.0.0.2:80"}, "", exitDone},
		{"dns:///127.0.0.1", []string{"127.0.0.1:443"}, "", exitDone},
		{"dns:///::1", []string{"[::1]:443"}, "", exitDone},
		{"dns:///[::1]", []string{"[::1]:443"}, "", exitDone},
		{"dns:///[::1]:80", []string{"[::1]:80"}, "", exitDone},
		{"srv://" + dns.Addr() + "/_grpc._tcp.api.test", []string{"n1.test:9"}, "", exitDone},
		{"dns://" + dns.Addr() + "/absent.test", nil, "no such name", exitFailed},
		{"srv://" + dns.Addr() + "/_http._tcp.api.test", nil, "no such name", exitFailed},
		{"dns://api.test", nil, "there are no three slashes before the name; write it as dns://SERVER/NAME", exitUsage},
		{"dns:///", nil, "is empty", exitUsage},
		{"dns:///api.test:", nil, "the port is not a number", exitUsage},
		{"dns:///api.test:0", nil, "the port is not a number", exitUsage},
		{"dns:///api.test:https", nil, "the port is not a number", exitUsage},
		{"dns://[::1/api.test", nil, "unbalanced brackets", exitUsage},
		{"dns:///a?b=c", nil, "neither credentials nor options", exitUsage},
		{"srv:///api.test", nil, "not of the form _SERVICE._PROTO.NAME; write it as srv://SERVER/NAME", exitUsage},
		{"srv:///a.b.api.test", nil, "not of the form _service._proto", exitUsage},
	} {
		t.Run(test.target, func(t *testing.T) {
			t.Parallel()
			got := call(t, nil, "", "resolve", "--json", test.target)
			var endpoints []string
			for line := range strings.Lines(got.stdout) {
				var e resolvedEndpoint
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				endpoints = append(endpoints, e.Endpoint)
				if strings.Contains(test.target, "/api.test") && strings.HasPrefix(e.Endpoint, "127.") && e.ServerName != "api.test" {
					t.Errorf("server name %q, want that of the target", e.ServerName)
				}
			}
			slices.Sort(endpoints)
			if !slices.Equal(endpoints, test.want) || got.status != test.status || !strings.Contains(got.stderr, test.text) {
				t.Errorf("got %q, status %d, %q; want %q, %d, %q", endpoints, got.status, got.stderr, test.want, test.status, test.text)
			}
		})
	}
}

func TestResolveWatchIsCalledWrongly(t *testing.T) {
	t.Parallel()
	const target = "dns:///api.test"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--interval", "1s", target}, "--interval is for --watch"},
		{[]string{"--max-interval", "1s", target}, "--max-interval is for --watch"},
		{[]string{"--watch", "--interval", "0", target}, "--interval must be 100ms or more"},
		{[]string{"--watch", "--interval", "-1s", target}, "--interval must be 100ms or more"},
		{[]string{"--watch", "--min-interval", "1m", target}, "--min-interval 1m0s must not be longer than --interval 30s"},
		{[]string{"--watch", "--max-interval", "1s", target}, "--max-interval 1s must not be shorter than --interval 30s"},
		{[]string{"--watch", "--interval", "1s", "--min-interval", "2s", target}, "must not be longer"},
		{[]string{"--watch", "chronicle://a,b"}, "nothing to look up"},
		{[]string{"--watch", "dns:///127.0.0.1"}, "nothing to look up"},
	} {
		got := call(t, nil, "", append([]string{"resolve"}, test.args...)...)
		if got.status != exitUsage || !strings.Contains(got.stderr, test.want) || got.stdout != "" {
			t.Errorf("%q: status %d, %q; want %d and %q", test.args, got.status, got.stderr, exitUsage, test.want)
		}
	}
}

func TestWatchColoursOnATerminal(t *testing.T) {
	t.Parallel()
	w := watch{palette: newPalette(true)}
	for _, event := range []string{eventAdded, eventRemoved, eventChanged} {
		if got := w.line(change{event, discover.Endpoint{Host: "a.test", Port: 1, Weight: 2}}); !strings.Contains(got, "\x1b[") ||
			!strings.HasSuffix(got, " a.test:1  priority 0, weight 2  looked up when dialled") {
			t.Errorf("%s is shown as %q", event, got)
		}
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend && unix

package test_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

const (
	chaosDomain = "chaos.test"
	// chaosDrainPeriod and chaosDrainLimit are short enough for a drain to end while the chaos goes on.
	chaosDrainPeriod = time.Second
	chaosDrainLimit  = 3 * time.Second
	// askLimit is how long a server that is well has to say its count, chaosStart how long one may take to listen.
	askLimit   = 2 * time.Second
	chaosStart = 20 * time.Second
	// startTries is how often a server is started: somebody else may have its port for a moment.
	startTries = 3
)

// condition is what is wrong with a server: one thing at a time.
type condition int

const (
	well     condition = iota
	stopped            // SIGSTOP: the system takes connections for it, and nobody says anything
	stalled            // its network has swallowed the way to it, the way back, or both
	draining           // SIGTERM: it will end by itself
	down               // its process has ended
)

func (c condition) String() string {
	return [...]string{well: "well", stopped: "stopped", stalled: "stalled", draining: "draining", down: "down"}[c]
}

// place is how a server stands in the DNS.
type place int

const (
	listed place = iota
	backup       // of a lower priority than the others
	absent       // in none of the records
)

// chaosServer is one "evenkeel serve" after the other on the same port, behind a relay by whose port clients know it.
type chaosServer struct {
	name      string // in the DNS
	listen    string // where the process listens
	cert, key string
	relay     *evenkeeltest.Relay
	process   *process
	condition condition
	place     place
}

// addr is how clients call the server.
func (s *chaosServer) addr() string {
	return net.JoinHostPort(s.name, strconv.Itoa(int(s.port())))
}

// port is the port of the relay.
func (s *chaosServer) port() uint16 { return netip.MustParseAddrPort(s.relay.Addr()).Port() }

// chaosCluster is the servers, and the name server that knows them.
type chaosCluster struct {
	t       *testing.T
	limit   time.Duration // of the life of a process
	ca      *authority
	dns     *evenkeeltest.DNS
	servers []*chaosServer
	made    int
	http    *http.Client // asks servers, not relays, for their counts
}

// startChaosCluster starts servers, which its end ends.
func startChaosCluster(ctx context.Context, t *testing.T, n int, limit time.Duration) *chaosCluster {
	t.Helper()
	needSignals(t)
	dns, err := evenkeeltest.NewDNS(evenkeeltest.DNSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c := &chaosCluster{t: t, limit: limit, ca: newAuthority(t), dns: dns}
	t.Cleanup(c.end)
	c.http = &http.Client{Timeout: askLimit, Transport: &http.Transport{TLSClientConfig: c.ca.tls()}}
	for range n {
		c.add(ctx)
	}
	return c
}

// target is the connection string of the cluster.
func (c *chaosCluster) target() string {
	return "chronicle+srv://" + chaosDomain + "/?srvNameServer=" + c.dns.Addr()
}

// add starts one more server and tells the name server.
func (c *chaosCluster) add(ctx context.Context) *chaosServer {
	c.t.Helper()
	c.made++
	address := loopback(c.made%100 + 1)
	s := &chaosServer{name: fmt.Sprintf("node%d.%s", c.made, chaosDomain), listen: net.JoinHostPort(address, "0"), condition: down}
	s.cert, s.key = c.ca.issue(s.name, address)
	c.servers = append(c.servers, s)
	c.start(ctx, s)
	relay, err := evenkeeltest.NewRelay(s.listen)
	if err != nil {
		c.t.Fatal(err)
	}
	s.relay = relay
	c.publish()
	return s
}

// remove takes a server out of the name server, and ends it.
func (c *chaosCluster) remove(s *chaosServer) {
	c.t.Helper()
	var left []*chaosServer
	for _, other := range c.servers {
		if other != s {
			left = append(left, other)
		}
	}
	c.servers = left
	c.dns.SetAddrs(s.name)
	c.publish()
	c.close(s)
}

// close ends a server and its relay.
func (c *chaosCluster) close(s *chaosServer) {
	c.t.Helper()
	c.kill(s)
	if s.relay == nil {
		return
	}
	if err := s.relay.Close(); err != nil {
		c.t.Error(err)
	}
}

// publish tells the name server which servers there are.
func (c *chaosCluster) publish() {
	records := make([]evenkeeltest.SRV, 0, len(c.servers))
	for _, s := range c.servers {
		if s.place == absent {
			continue
		}
		records = append(records, evenkeeltest.SRV{Target: s.name, Port: s.port(), Priority: uint16(s.place), Weight: 100}) //nolint:gosec // 0 or 1
		c.dns.SetAddrs(s.name, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	c.dns.SetSRV("_chronicle._tcp."+chaosDomain, records...)
}

// start starts the process of a server that is down, on the port that it had.
func (c *chaosCluster) start(ctx context.Context, s *chaosServer) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, chaosStart)
	defer cancel()
	for range startTries {
		s.process = launch(c.t, c.limit, evenkeel, "serve", "--listen", s.listen, "--json", "--name", s.name, "--cert", s.cert,
			"--key", s.key, "--drain-period", chaosDrainPeriod.String(), "--drain-limit", chaosDrainLimit.String())
		var lines []string
		err := s.process.out.await(ctx, s.process.ended, func(now []string) bool { lines = now; return len(now) > 0 })
		if err == nil {
			var report serveReport
			strict(c.t, lines[0], &report)
			s.listen, s.condition = report.Listening, well
			return
		}
		s.process.end()
		c.t.Logf("start of %s on %s: %v: %s", s.name, s.listen, err, tail(s.process.errs.String()))
	}
	c.t.Fatalf("%s does not start", s.name)
}

// kill ends the process of a server in whatever state it is.
func (c *chaosCluster) kill(s *chaosServer) {
	c.t.Helper()
	if s.process != nil {
		s.process.end()
	}
	s.condition = down
}

// stall stalls the network of a server in the direction, or in both.
func (s *chaosServer) stall(directions ...evenkeeltest.Direction) {
	s.relay.Stall(directions...)
	s.condition = stalled
}

// freeze stops the process.
func (s *chaosServer) freeze() {
	s.process.signal(syscall.SIGSTOP)
	s.condition = stopped
}

// drain asks the process to end.
func (s *chaosServer) drain() {
	s.process.signal(syscall.SIGTERM)
	s.condition = draining
}

// recover ends what is wrong with a server, save that it drains.
func (c *chaosCluster) recover(ctx context.Context, s *chaosServer) {
	c.t.Helper()
	switch s.condition {
	case stopped:
		s.process.signal(syscall.SIGCONT)
	case stalled:
		s.relay.Resume()
	case down:
		c.start(ctx, s)
	case well, draining:
		return
	}
	s.condition = well
}

// reap takes in which processes have ended: none but those that were asked to, and these in good order.
func (c *chaosCluster) reap() {
	c.t.Helper()
	for _, s := range c.servers {
		if s.condition == down {
			continue
		}
		select {
		case <-s.process.ended:
		default:
			continue
		}
		if s.condition != draining || s.process.err != nil {
			c.t.Errorf("%s, which was %v, has ended by itself: %v", s.name, s.condition, s.process.err)
			s.process.report()
		}
		c.kill(s)
	}
}

// awaitDrained waits until the servers that drain have ended.
func (c *chaosCluster) awaitDrained(ctx context.Context) {
	c.t.Helper()
	for _, s := range c.servers {
		if s.condition != draining {
			continue
		}
		select {
		case <-s.process.ended:
		case <-ctx.Done():
			c.t.Fatalf("%s has not come to the end of its drain: %v", s.name, ctx.Err())
		}
	}
	c.reap()
}

// live are the servers that are well.
func (c *chaosCluster) live() []*chaosServer {
	var live []*chaosServer
	for _, s := range c.servers {
		if s.condition == well {
			live = append(live, s)
		}
	}
	return live
}

// serving is how many servers are well and first choice.
func (c *chaosCluster) serving() int {
	n := 0
	for _, s := range c.live() {
		if s.place == listed {
			n++
		}
	}
	return n
}

// counts are what the servers that are well count, by how clients call them; those that count nobody are left out.
func (c *chaosCluster) counts(ctx context.Context) (map[string]int, error) {
	counts := make(map[string]int)
	for _, s := range c.live() {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.listen+"/connections/count", nil)
		if err != nil {
			return nil, err
		}
		status, body, err := answerTo(c.http, request)
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(body)
		if err != nil || status != http.StatusOK {
			return nil, fmt.Errorf("count of %s is status %d with %q", s.name, status, body)
		}
		if n > 0 {
			counts[s.addr()] = n
		}
	}
	return counts, nil
}

// end ends everything. It may be called twice.
func (c *chaosCluster) end() {
	c.t.Helper()
	c.http.CloseIdleConnections()
	for _, s := range c.servers {
		c.close(s)
	}
	if err := c.dns.Close(); err != nil {
		c.t.Error(err)
	}
}

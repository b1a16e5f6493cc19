// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel-go/evenkeel/internal/devcert"
)

// Cluster is a set of servers on real sockets in this process, with a name server that knows them and a certificate
// authority of their own. New and Start make one. Its methods are safe for concurrent use.
//
// The authority is new for each cluster, so TLS or CAPEM has to be given to the client. The names of the servers are known
// to the cluster's own name server only.
//
// A server does wrong what Server.SetFault says, and a name server what DNS.SetFault says. With Config.Relays the
// network between clients and servers can be at fault as well.
type Cluster struct {
	// Servers are the servers, in the order in which they were added. AddServer, AddServers and RemoveServer change the
	// slice: do not read it while one of them runs.
	Servers []*Server
	// DNS is the name server, for records and faults beyond those that the cluster sets.
	DNS *DNS

	config Config
	ca     *devcert.CA

	// mu guards what follows, and writing to Servers.
	mu     sync.Mutex
	made   int // servers made so far, for their names
	closed bool
}

// New starts a cluster. The caller closes it. The error says what could not be started; nothing is left running then.
func New(config Config) (*Cluster, error) {
	config = config.withDefaults()
	ca, err := devcert.NewCA()
	if err != nil {
		return nil, err
	}
	dns, err := NewDNS(DNSConfig{})
	if err != nil {
		return nil, err
	}
	c := &Cluster{DNS: dns, config: config, ca: ca}
	if _, err := c.AddServers(max(config.Servers, 0)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Start starts a cluster that is closed when the test ends. A failure ends the test.
func Start(tb testing.TB, config Config) *Cluster {
	tb.Helper()
	c, err := New(config)
	if err != nil {
		tb.Fatalf("start a cluster: %v", err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("close the cluster: %v", err)
		}
	})
	return c
}

// Close stops all servers and the name server and waits until they have ended. Closing twice is harmless.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	var faults []error
	for _, s := range c.Servers {
		faults = append(faults, s.end())
	}
	return errors.Join(append(faults, c.DNS.Close())...)
}

// Domain returns the name under which the cluster is found in its DNS.
func (c *Cluster) Domain() string { return c.config.Domain }

// ConnectionString returns the string that lists the servers by address, in their order.
func (c *Cluster) ConnectionString() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	addrs := make([]string, 0, len(c.Servers))
	for _, s := range c.Servers {
		addrs = append(addrs, s.Addr())
	}
	return "chronicle://" + c.credentials() + strings.Join(addrs, ",")
}

// SRVConnectionString returns the string that finds the servers through the cluster's own name server.
func (c *Cluster) SRVConnectionString() string {
	return "chronicle+srv://" + c.credentials() + c.config.Domain + "/?srvNameServer=" + c.DNS.Addr()
}

// credentials are those of the first client, as a connection string has them.
func (c *Cluster) credentials() string {
	if c.config.Auth == nil || len(c.config.Auth.Clients) == 0 {
		return ""
	}
	client := c.config.Auth.Clients[0]
	// A userinfo of package url escapes less than a connection string wants.
	escape := func(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
	return escape(client.ID) + ":" + escape(client.Secret.Reveal()) + "@"
}

// TLS returns new client settings that trust the cluster's servers and nobody else.
func (c *Cluster) TLS() *tls.Config {
	return &tls.Config{RootCAs: c.CAPool(), MinVersion: tls.VersionTLS12}
}

// CAPool returns a new pool with the cluster's certificate authority.
func (c *Cluster) CAPool() *x509.CertPool { return c.ca.Pool() }

// CAPEM returns the certificate of the authority, for programs that read roots from a file.
func (c *Cluster) CAPEM() []byte { return c.ca.PEM() }

// Count returns the sum of the servers' counts. Those that are down count nothing.
func (c *Cluster) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for _, s := range c.Servers {
		total += s.Count()
	}
	return total
}

// WaitCount returns when the sum of the servers' counts is n, or with an error that tells the last sum once ctx is done.
func (c *Cluster) WaitCount(ctx context.Context, n int) error {
	return waitCount(ctx, "the cluster", n, c.Count)
}

// AddServer starts one more server and adds it to the DNS.
func (c *Cluster) AddServer() (*Server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("add a server: the cluster is closed")
	}
	c.made++
	s := &Server{
		cluster: c,
		name:    fmt.Sprintf("node%d.%s", c.made, c.config.Domain),
		faults:  newFaults(),
		srv:     SRV{Weight: 100},
	}
	if err := s.start(); err != nil {
		return nil, fmt.Errorf("add a server: %w", err)
	}
	c.Servers = append(c.Servers, s)
	c.publishLocked()
	return s, nil
}

// AddServers starts n more servers and returns them. When one cannot be started, those before it stay.
func (c *Cluster) AddServers(n int) ([]*Server, error) {
	added := make([]*Server, 0, n)
	for range n {
		s, err := c.AddServer()
		if err != nil {
			return added, err
		}
		added = append(added, s)
	}
	return added, nil
}

// RemoveServer takes a server out of the DNS and the list, then stops it as Kill does, and its relay too. A server that
// is not in the list is left alone.
func (c *Cluster) RemoveServer(s *Server) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.Servers, s)
	if i < 0 {
		return nil
	}
	c.Servers = slices.Delete(slices.Clone(c.Servers), i, i+1)
	c.DNS.SetAddrs(s.name)
	c.publishLocked()
	return s.end()
}

// publishLocked writes the servers into the DNS.
func (c *Cluster) publishLocked() {
	records := make([]SRV, 0, len(c.Servers))
	for _, s := range c.Servers {
		records = append(records, s.record())
		c.DNS.SetAddrs(s.name, c.config.Addr)
	}
	c.DNS.SetSRV("_chronicle._tcp."+c.config.Domain, records...)
}

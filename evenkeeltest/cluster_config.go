// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	"github.com/evenkeel-go/evenkeel/server"
)

// Config says what a cluster is made of. The zero value is three servers on free ports of 127.0.0.1, with TLS, under the
// domain cluster.test.
type Config struct {
	// Servers is how many servers there are at the start; 0 means 3. Negative means none: they are added later.
	Servers int
	// Domain is the name under which the cluster is found in its DNS. Default "cluster.test".
	Domain string
	// Addr is the address on which servers listen, each on a free port. Default 127.0.0.1. The cluster's name server
	// listens on 127.0.0.1 all the same.
	Addr netip.Addr
	// Plaintext has the servers serve without TLS.
	Plaintext bool
	// ClientCertificates has the servers want a certificate of every client, probes included, that
	// Cluster.ClientCertificate made. It needs TLS.
	ClientCertificates bool
	// Relays puts a relay in front of each server, by whose address clients know it (see Server.Relay).
	Relays bool
	// Auth has the servers ask for tokens and, where it has Clients, give them; nil lets everybody in. Each start of a
	// server forgets the tokens that were given before. The connection strings of the cluster then hold the credentials of
	// the first client.
	Auth *server.AuthConfig
	// Registry holds the settings of each server's registry; an empty Name means the server's name in DNS.
	Registry server.RegistryConfig
	// DrainLimit is how long Server.Drain waits for clients to leave; 0 means the server's default. How long it takes to
	// tell them is a setting of the registry.
	DrainLimit time.Duration
	// Services registers further gRPC services. It is called once for each start of a server, and once more for each
	// Fault.GoAwayAfter that clients meet.
	Services func(*grpc.Server)
	// Handler answers what the servers' own HTTP paths do not; nil means 404.
	Handler http.Handler
	// GRPCOptions are added to those of each server, such as grpc.MaxConcurrentStreams(100) for the limit that stock
	// servers have on each connection.
	GRPCOptions []grpc.ServerOption
	// Logger gets what the servers log; nil means silence.
	Logger *slog.Logger
}

// withDefaults returns the configuration with its defaults filled in.
func (c Config) withDefaults() Config {
	if c.Servers == 0 {
		c.Servers = 3
	}
	if c.Domain == "" {
		c.Domain = "cluster.test"
	}
	if !c.Addr.IsValid() {
		c.Addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return c
}

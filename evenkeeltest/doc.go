// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package evenkeeltest runs the surroundings of a client on the loopback interface, for tests and demonstrations.
//
// [Cluster] is a set of real servers on real sockets, with a certificate authority and a name server that knows them. Each
// server does wrong what it is told to, while it runs, and a relay in front of it is the network at fault:
//
//	cluster := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 3, Relays: true})
//	conn, err := evenkeel.Dial(ctx, cluster.ConnectionString(), evenkeel.WithTLS(cluster.TLS()))
//	...
//	cluster.Servers[0].SetFault(evenkeeltest.Fault{Count: evenkeeltest.HTMLPage()})
//	cluster.Servers[1].Relay().Stall()
//	cluster.Servers[2].Kill()
//
// [DNS], which a cluster has too, is a real name server whose records and faults can be changed while it runs:
//
//	dns := evenkeeltest.StartDNS(t, evenkeeltest.DNSConfig{})
//	dns.SetSRV("_chronicle._tcp.cluster.test", evenkeeltest.SRV{Target: "node1.cluster.test", Port: 35000})
//	dns.SetAddrs("node1.cluster.test", netip.MustParseAddr("127.0.0.1"))
//	resolver, err := discover.SRV(discover.SRVConfig{Name: "cluster.test", NameServer: dns.Addr()})
//
// [Relay] also stands alone, in front of any TCP server.
//
// # Configuration
//
// Zero values of the configurations mean the usual: IPv4 loopback and a free port. A test uses the Start functions,
// which end what they started together with the test; a program uses the New functions and Close.
//
// # Errors
//
// The New functions return what keeps a server from listening, the Start functions end the test instead.
//
// # Concurrency
//
// All methods may be called by several goroutines at once. Close ends and waits for everything that was started.
//
// # Specification
//
// RFC 1035 (DNS), RFC 2782 (SRV), RFC 6891 (EDNS), RFC 7766 (TCP).
package evenkeeltest

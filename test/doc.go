// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package test holds the end-to-end suites: the command as its users run it, in processes of its own, on real sockets
// with real TLS, beside programs that other people wrote. It has tests only, and nothing to import.
//
//	go test ./test/...                      # all of them
//	go test -v -run 'TestFleet' ./test      # one, with the figures that it measured
//	go test -tags endtoend ./test           # with those that take long: frozen and terminated servers, chaos, floods,
//	                                        # clients in the shapes of the stock ones, and plain channels in scale-ups,
//	                                        # replacements, outages and a partition; see -keepalive-flood
//	go test -v -tags endtoend -timeout 80m -run TestHoldChaos ./test -chaos 1h # and -chaosseed, to repeat one
//
// # Configuration
//
// The suites build the command once. They need curl with HTTP/2, knotd of Knot DNS, and grpcurl, which they take from
// bin (make bin/grpcurl), from PATH, or build from tools/go.mod; the partition needs nft of nftables and Linux namespaces,
// which no privileges are needed for where the system lets users have them. Where a program is missing its tests are
// skipped, and fail when CI is "true". On Linux servers listen on 127.0.0.1, 127.0.0.2 and so on, elsewhere all on 127.0.0.1.
//
// # Errors
//
// A test that fails prints what its processes wrote.
//
// # Concurrency
//
// Tests run in parallel, save that those which measure times run beside those only that do nothing but wait, and the chaos,
// which counts what is left in its process, by itself. Every process is ended by the test that started it, and every wait
// is for an event and bounded.
//
// # Specification
//
// Names of tests say which behaviour they prove; what the command promises is in its --help, what peers say to each other
// in docs/protocol.md.
package test

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package memnet is a network in memory, for tests in a synctest bubble:
//
//	listener := memnet.Listen()
//	go server.Serve(listener)
//	conn, err := listener.DialContext(ctx)
//
// Its connections start no timer that is due at once, as those of gRPC's bufconn do. In a bubble such a timer runs on the
// goroutine that starts it, and two at a time crash the race detector of Go 1.26, or the runtime with it: a crash, seen in
// a third of the runs, not a finding (golang/go#78156).
package memnet

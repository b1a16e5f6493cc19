// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Command beside runs a channel with the options of package channel and one of stock grpc-go with round_robin side by
// side, lets the same things happen to both, and prints a table of what came of it. Everything is on this machine: real
// servers on 127.x.y.z and a real name server. Both have their defaults.
//
//	go run ./test/beside
//
// It takes about two minutes, and needs Linux, where all of 127.0.0.0/8 can be listened on.
package main

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Command capacity measures what sessions cost a server: memory and processor time of 1000 or 5000 sessions, on a server of
// ours and on a bare gRPC server that does no more than send and take the same messages.
//
//	go run ./test/capacity                  # 1000 sessions
//	go run ./test/capacity -sessions 5000
//	go test ./test/capacity                 # that it works
//	go test ./test/capacity -sessions 1000  # fails when ours costs more than 1.15 times as much
//
// # Configuration
//
// The flags say how many sessions there are, how often both servers are measured in turn, and for how long. Both are
// processes of their own, made from this one program; they use the same certificate, buffers and timeouts. The clients
// run in the program that was started.
//
// # Errors
//
// What fails is said on standard error, and the exit status is 1.
//
// # Concurrency
//
// One goroutine for each session. Nothing is left when a measurement ends.
//
// # Specification
//
// Linux only: resident memory and processor time are read from /proc (proc(5)).
package main

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
)

// Bounds on what a client says of itself, in bytes. A connection id beyond its bound is refused, since cutting it could
// make two clients one; other texts are cut, since they are shown to people only.
const (
	maxConnectionID = 128
	maxText         = 512
)

// client is one registered Connect stream.
type client struct {
	beat    *beat
	id      string
	request *clientspb.ConnectRequest // what it said of itself, bounded; read-only
	server  string                    // the server address that it sees
	from    source                    // whose place among the clients it has taken
	since   time.Duration             // when it was registered, on the registry's scale

	stale *time.Timer // evicts it when it has been silent for too long; nil for one in a debugger

	// Only used by the stream's handler.
	heard      int64 // when the client was heard of, when its handler last looked
	unanswered int   // keep-alives sent since then

	endOnce sync.Once
	reason  string        // why the server ended it, readable once ended is closed
	ended   chan struct{} // closed when the server has ended it
}

// newClient makes a client of a request whose id has been checked.
func newClient(request *clientspb.ConnectRequest, serverAddress string) *client {
	c := &client{
		id: request.GetConnectionId(),
		request: &clientspb.ConnectRequest{
			ConnectionId:          request.GetConnectionId(),
			ClientVersion:         cut(request.GetClientVersion()),
			IsRunningWithDebugger: request.GetIsRunningWithDebugger(),
			ProcessId:             request.GetProcessId(),
			ProcessPath:           cut(request.GetProcessPath()),
			MachineName:           cut(request.GetMachineName()),
			ClientType:            cut(request.GetClientType()),
		},
		server: serverAddress,
		ended:  make(chan struct{}),
	}
	c.beat = newBeat(c)
	return c
}

// maxUnanswered is how many keep-alives are sent to a client from which nothing is heard. One in a debugger can stand still
// for days, and gRPC would keep some 300 KB of them before it noticed that nobody takes them.
const maxUnanswered = 60

// isOwedKeepAlive counts a keep-alive that is to be sent, or reports that none is.
func (c *client) isOwedKeepAlive() bool {
	if heard := c.beat.lastSeen.Load(); heard != c.heard {
		c.heard, c.unanswered = heard, 0
	}
	if c.unanswered == maxUnanswered {
		return false
	}
	c.unanswered++
	return true
}

// end tells the client's stream to end; only the first reason counts. It reports whether this was the first.
func (c *client) end(reason string) (first bool) {
	c.endOnce.Do(func() {
		c.reason = reason
		close(c.ended)
		first = true
	})
	return first
}

// describe makes the list entry of the client. age is how long ago it was last heard of.
func (c *client) describe(now time.Time, age time.Duration) *clientspb.ConnectedClient {
	return &clientspb.ConnectedClient{
		ConnectionId:          c.id,
		Version:               c.request.GetClientVersion(),
		LastSeen:              &clientspb.SerializableDateTimeOffset{Value: roundTripTime(now.Add(-age))},
		IsRunningWithDebugger: c.request.GetIsRunningWithDebugger(),
		SiloAddress:           c.server,
		ProcessId:             c.request.GetProcessId(),
		ProcessPath:           c.request.GetProcessPath(),
		MachineName:           c.request.GetMachineName(),
		ClientType:            c.request.GetClientType(),
	}
}

// cut bounds a text, at the end of a character. A copy is made when something is cut off: a slice would keep all of it
// in memory.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}

// roundTripTime renders a time as .NET's format "O" does, in UTC: seven digits of a second and a numeric offset.
func roundTripTime(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.0000000-07:00")
}

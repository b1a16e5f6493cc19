// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// EventKind says what happened.
type EventKind int

// The kinds of events, in the order in which an attempt and a session bring them.
const (
	// EventResolving: a lookup of the endpoints begins.
	EventResolving EventKind = iota
	// EventResolved: Endpoints are the servers found. Err is set when they are not the whole answer: a
	// *discover.PartialError, or the failure for which an earlier answer is used.
	EventResolved
	// EventSelected: Endpoint was picked. Observations are the counts seen, where there were probes.
	EventSelected
	// EventCandidateFailed: Endpoint was picked and failed with Err, an *EndpointError; another may follow.
	EventCandidateFailed
	// EventUnchecked: whether Endpoint serves what the client needs could not be found out, since it does not say; Err is
	// why. The attempt goes on.
	EventUnchecked
	// EventConnected: the session on Endpoint is up; the Conn is ready.
	EventConnected
	// EventLeaving: the Conn is about to move away from Endpoint, which serves during the attempt to find another server;
	// Err is why. EventConnected follows, or, where that attempt finds none, EventLost. Where the Conn leaves by itself
	// (ErrReselected, ErrRebalanced) the next session is there already.
	EventLeaving
	// EventLost: the session on Endpoint ended; Err is the cause.
	EventLost
	// EventBackingOff: the attempt failed with Err, or two sessions in a row were lost within 2 s, the last one with Err;
	// the next attempt begins after Wait.
	EventBackingOff
	// EventCertificate: the file of the client certificate (certificatePath) has changed. Its certificate is in use from
	// now on; with an Err it cannot be, and the one before it is.
	EventCertificate
	// EventClosed: the Conn was closed. It is the last event.
	EventClosed
	// EventPanicked: a callback panicked with Err. Nothing else ended because of it.
	EventPanicked
)

//nolint:gochecknoglobals // a table that nobody changes
var eventKindNames = [...]string{
	EventResolving:       "resolving",
	EventResolved:        "resolved",
	EventSelected:        "selected",
	EventCandidateFailed: "candidate failed",
	EventUnchecked:       "compatibility unknown",
	EventConnected:       "connected",
	EventLeaving:         "leaving",
	EventLost:            "lost",
	EventBackingOff:      "backing off",
	EventCertificate:     "client certificate",
	EventClosed:          "closed",
	EventPanicked:        "panicked",
}

// String returns the name of the kind in lower case, such as "backing off".
func (k EventKind) String() string {
	if k < 0 || int(k) >= len(eventKindNames) {
		return "event " + strconv.Itoa(int(k))
	}
	return eventKindNames[k]
}

// MarshalText returns the same as String.
func (k EventKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Event is one thing that happened to a Conn. Which fields are set depends on the kind. It holds no secret.
type Event struct {
	Time time.Time
	Kind EventKind
	// Generation counts the sessions of a Conn from 1. Before the first session it is 0.
	Generation uint64
	// Endpoint is the server concerned.
	Endpoint discover.Endpoint
	// Endpoints is the answer of the lookup.
	Endpoints []discover.Endpoint
	// Observations are the answers of the candidates that were asked, in the order of the candidates.
	Observations []balance.Observation
	// Err is the cause.
	Err error
	// Wait is how long the backoff is.
	Wait time.Duration
	// Dropped is the number of events that were lost just before this one because the callback did not keep up.
	Dropped int
}

// String returns one line for a person to read.
func (e Event) String() string {
	s := e.Kind.String()
	switch e.Kind {
	case EventResolved:
		s += " " + strconv.Itoa(len(e.Endpoints)) + " endpoint"
		if len(e.Endpoints) != 1 {
			s += "s"
		}
	case EventSelected, EventCandidateFailed, EventUnchecked, EventConnected, EventLeaving, EventLost:
		s += " " + e.Endpoint.Addr()
	case EventBackingOff:
		s += " " + e.Wait.Round(time.Millisecond).String()
	default:
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// level is the severity at which an event is logged.
func (e Event) level() slog.Level {
	switch e.Kind {
	case EventCertificate:
		if e.Err != nil {
			return slog.LevelWarn
		}
		return slog.LevelInfo
	case EventResolving, EventResolved, EventSelected:
		return slog.LevelDebug
	case EventCandidateFailed, EventLost, EventBackingOff:
		return slog.LevelWarn
	case EventPanicked:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

// attrs are the fields of the log record of an event.
func (e Event) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 4)
	if e.Generation > 0 {
		attrs = append(attrs, slog.Uint64("generation", e.Generation))
	}
	if e.Endpoint.Host != "" {
		attrs = append(attrs, slog.String("endpoint", e.Endpoint.Addr()))
	}
	if e.Kind == EventResolved {
		attrs = append(attrs, slog.Int("endpoints", len(e.Endpoints)))
	}
	if e.Kind == EventBackingOff {
		attrs = append(attrs, slog.Duration("wait", e.Wait))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	return attrs
}

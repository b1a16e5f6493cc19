// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
	"github.com/evenkeel-go/evenkeel/discover"
)

// recentEvents is how many events Status remembers.
const recentEvents = 16

// Status is what a Conn is and was doing, for a person or a health page. It holds no secret.
type Status struct {
	State State
	// Generation counts the sessions; 0 before the first. The fields up to Observations describe the current
	// session and are zero when there is none.
	Generation   uint64
	Endpoint     discover.Endpoint
	ConnectionID string
	ReadySince   time.Time
	// Observations are the counts seen when the server was selected; nil when nothing was probed.
	Observations []balance.Observation
	// Err is why there is no session, where something has failed.
	Err error
	// Events are the last 16, the oldest first.
	Events []Event
}

// String returns one line for a person to read.
func (s Status) String() string {
	text := s.State.String()
	if s.Endpoint.Host != "" {
		text += " on " + s.Endpoint.Addr()
		if len(s.Endpoint.Addrs) == 1 && s.Endpoint.Addrs[0].String() != s.Endpoint.Addr() {
			text += " (" + s.Endpoint.Addrs[0].String() + ")"
		}
		text += fmt.Sprintf(", session %d since %s", s.Generation, s.ReadySince.UTC().Format(time.RFC3339))
	}
	if s.Err != nil {
		text += ": " + s.Err.Error()
	}
	return text
}

// Status returns a snapshot.
func (c *Conn) Status() Status {
	v := c.view.Load()
	status := Status{State: v.state, Err: v.failure}
	if g := v.gen; g != nil {
		status.Generation = g.number
		status.Endpoint = g.endpoint
		status.ConnectionID = g.id
		status.ReadySince = g.readyAt
		status.Observations = slices.Clone(g.observations)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	status.Events = slices.Clone(c.recent)
	return status
}

// remember keeps an event for Status.
func (c *Conn) remember(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) == recentEvents {
		c.recent = slices.Delete(c.recent, 0, 1)
	}
	c.recent = append(c.recent, e)
}

// listener is the callback of the dispatcher: the log and the user's own; nil when there is neither.
func (c *config) listener() func(Event) {
	logger, callback := c.logger, c.events
	switch {
	case logger == nil:
		return callback
	case callback == nil:
		return func(e Event) { logEvent(logger, e) }
	default:
		return func(e Event) {
			logEvent(logger, e)
			callback(e)
		}
	}
}

func logEvent(logger *slog.Logger, e Event) {
	logger.LogAttrs(context.Background(), e.level(), "evenkeel: "+e.Kind.String(), e.attrs()...)
}

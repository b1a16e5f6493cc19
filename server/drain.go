// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// ErrDrainLimit is the cause with which Drain gives up waiting after Config.DrainLimit.
var ErrDrainLimit = errors.New("the drain limit was reached")

// stopWithin bounds each of the two orderly ends, of HTTP and of gRPC, that a drain finishes with.
const stopWithin = 500 * time.Millisecond

// Drain stops the server in an orderly way: it drains the registry (see Registry.Drain), which moves the clients to other
// servers, and goes on serving calls until the clients have left: none is registered, no connection that carried a session
// is open, and no call or request of the application runs. Then, or when DrainLimit has passed, it stops: GOAWAY to who
// is left, a second at most for what still runs, and Close.
//
// It returns nil when all clients have left, an error that matches ErrDrainLimit and says who is left when some had
// not, and one with the cause of ctx when that was done; then the server is stopped at once. In any case the server is
// closed when Drain returns. A shared registry stays drained. Connections that never carried a session are not waited
// for: nothing tells their clients to leave but the GOAWAY at the end.
func (s *Server) Drain(ctx context.Context) error {
	defer s.Close()
	limited, cancel := context.WithTimeoutCause(ctx, s.config.DrainLimit, ErrDrainLimit)
	defer cancel()
	err := s.registry.Drain(limited)
	if err == nil {
		if err = s.work.wait(limited); err != nil {
			err = fmt.Errorf("drain: still open: %s: %w", s.leftOver(), err)
		}
	}
	if err != nil {
		s.drainFailure.CompareAndSwap(nil, &err)
	} else if failure := s.drainFailure.Load(); failure != nil {
		return *failure // the clients have not left: another call has cut them off
	}
	if ctx.Err() == nil {
		s.finish(ctx)
	}
	return err
}

// leftOver says what a drain was waiting for: how many calls and connections, and where some of them come from.
func (s *Server) leftOver() string {
	connections, addrs := s.port.open.withSession(maxNamed)
	var left []string
	if calls := int(s.work.running.Load()) - connections; calls > 0 {
		left = append(left, plural(calls, "call"))
	}
	if connections > 0 {
		left = append(left, plural(connections, "connection")+" of clients ("+someOf(addrs, connections)+")")
	}
	if len(left) == 0 {
		return "nothing any more"
	}
	return strings.Join(left, ", ")
}

// maxNamed is how many of those that have not left an error names.
const maxNamed = 3

// plural counts things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// someOf lists names, and how many more there are in all.
func someOf(names []string, all int) string {
	text := strings.Join(names, ", ")
	if more := all - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// finish ends both halves in their own orderly ways, each within stopWithin. HTTP goes first: the end of the gRPC server
// cuts the calls that came through net/http.
func (s *Server) finish(ctx context.Context) {
	s.closeListeners()
	bounded, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	if err := s.http.Shutdown(bounded); err != nil {
		// Cut by their connections, calls end as UNAVAILABLE; the gRPC server would end them without a status.
		s.config.Logger.Debug("end of the HTTP half", slog.Any("error", err))
		_ = s.http.Close() // it has been told of the listener's end already
	}
	stopped := s.stopGRPC()
	patience := time.NewTimer(stopWithin)
	defer patience.Stop()
	select {
	case <-stopped:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// stopGRPC begins the orderly end of the gRPC half. Close waits for it.
func (s *Server) stopGRPC() <-chan struct{} {
	stopped := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grpcStopped = stopped
	go func() {
		defer close(stopped)
		s.grpc.GracefulStop()
	}()
	return stopped
}

// closeListeners lets no connection in any more, and Serve return.
func (s *Server) closeListeners() {
	s.mu.Lock()
	s.closed = true
	listeners := make([]interface{ Close() error }, 0, len(s.listeners))
	for listener := range s.listeners {
		listeners = append(listeners, listener)
	}
	s.mu.Unlock()
	for _, listener := range listeners {
		if err := listener.Close(); err != nil {
			s.config.Logger.Debug("close a listener", slog.Any("error", err))
		}
	}
}

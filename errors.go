// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/dial"
)

// ErrClosed is the cause of calls and waits that fail because the Conn was closed.
var ErrClosed = errors.New("evenkeel: connection closed")

// Causes for which a session ends. They stand in the Err of an EventLost and in the error of the calls that were cut
// off; errors.Is finds them there.
var (
	// ErrSilent: no keep-alive came from the server for 5 s.
	ErrSilent = errors.New("no keep-alive from the server for 5 s")
	// ErrUnanswered: the server answered no keep-alive of ours for 4 s.
	ErrUnanswered = errors.New("no keep-alive answered for 4 s")
	// ErrPaused: more than 5 s passed between two answered keep-alives, on the monotonic or on the wall clock: the
	// program or the machine was suspended, and the server has given the client up since.
	ErrPaused = errors.New("paused for more than 5 s between two keep-alives")
	// ErrWrongID: the server sent a keep-alive with the id of another connection.
	ErrWrongID = errors.New("keep-alive with the id of another connection")
	// ErrStreamEnded: the server ended the Connect stream without an error.
	ErrStreamEnded = errors.New("server ended the session")
	// ErrTransportLost: the connection to the server broke.
	ErrTransportLost = errors.New("connection to the server lost")
	// ErrDraining: the server said that it is about to stop. The client moves before it lets go.
	ErrDraining = errors.New("server is draining")
	// ErrShed: the server has more clients than its share and sends some away. The client moves before it lets go.
	ErrShed = errors.New("server has more clients than its share")
	// ErrGoAway: the server takes no new calls on the connection (HTTP/2 GOAWAY). The client moves, and running calls
	// go on.
	ErrGoAway = errors.New("server takes no new calls on the connection")
	// ErrReselected: Reselect found a better server.
	ErrReselected = errors.New("moved to another server on request")
	// ErrRebalanced: the server had more clients than others, and the client moved (see WithRebalance).
	ErrRebalanced = errors.New("moved to a server with fewer clients")
)

// Step is a part of an attempt to connect.
type Step int

// The steps of an attempt, in order.
const (
	StepResolve Step = iota
	StepSelect
	StepDial
	StepToken
	StepCompatibility
	StepConnect
	StepOnReady
)

// String returns the name of the step: "resolve", "select", "dial", "token", "compatibility", "connect" or "on ready".
func (s Step) String() string {
	switch s {
	case StepResolve:
		return "resolve"
	case StepSelect:
		return "select"
	case StepDial:
		return "dial"
	case StepToken:
		return "token"
	case StepCompatibility:
		return "compatibility"
	case StepConnect:
		return "connect"
	case StepOnReady:
		return "on ready"
	default:
		return "step " + strconv.Itoa(int(s))
	}
}

// EndpointError says why one server did not become the session's.
type EndpointError struct {
	Endpoint discover.Endpoint
	Step     Step
	Err      error
}

// Error names the server, the step and the cause.
func (e *EndpointError) Error() string {
	text := e.Step.String() + " " + e.Endpoint.Addr() + ": " + e.cause()
	text = printable(text)
	if hint := e.hint(); hint != "" {
		text += " (" + hint + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *EndpointError) Unwrap() error { return e.Err }

// Permanent says that trying the same server again cannot help as long as neither its configuration nor the client's
// changes: its certificate was refused, it refuses the client's certificate or credentials, or it does not serve what the
// client needs.
func (e *EndpointError) Permanent() bool {
	if errors.Is(e.Err, ErrUnauthenticated) || errors.Is(e.Err, ErrIncompatible) {
		return true
	}
	return certificateRefused(e.Err)
}

// AttemptError says why a whole attempt to connect failed.
type AttemptError struct {
	// Failures are the servers that were tried, in the order in which they failed. Where who waited for the session gave
	// up, the last one may be a server at which the Step was going on, after those of the attempt before.
	Failures []*EndpointError
	// Err is the cause where it lies outside the servers: the lookup or the selection failed, or the time was up.
	Err error
}

// Error lists the causes.
func (e *AttemptError) Error() string {
	var b strings.Builder
	b.WriteString("evenkeel: no session")
	separator := ": "
	if e.Err != nil {
		b.WriteString(separator + e.Err.Error())
		separator = "; "
	}
	for _, f := range e.Failures {
		b.WriteString(separator + f.Error())
		separator = "; "
	}
	return b.String()
}

// Unwrap returns all causes.
func (e *AttemptError) Unwrap() []error {
	errs := make([]error, 0, len(e.Failures)+1)
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	for _, f := range e.Failures {
		errs = append(errs, f)
	}
	return errs
}

// Permanent says that at least one server was tried and every one failed for a permanent reason.
func (e *AttemptError) Permanent() bool {
	if e.Err != nil || len(e.Failures) == 0 {
		return false
	}
	for _, f := range e.Failures {
		if !f.Permanent() {
			return false
		}
	}
	return true
}

// cause is the text of Err, without saying "dial" and the address again.
func (e *EndpointError) cause() string {
	op, ok := e.Err.(*net.OpError) //nolint:errorlint // only at the top, whose text this replaces
	switch {
	case !ok || op.Op != "dial" || op.Addr == nil || op.Err == nil:
		return e.Err.Error()
	case op.Addr.String() == e.Endpoint.Addr():
		return op.Err.Error()
	default:
		return op.Addr.String() + ": " + op.Err.Error()
	}
}

// maxText bounds what a server may have us say in its name.
const maxText = 512

// printable is a text with parts that came from a server, or from somebody who answered in its place, as one line that
// does nothing to a terminal.
func printable(text string) string {
	text = strings.ReplaceAll(text, "\n", "; ")
	if len(text) > maxText {
		text = text[:maxText] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// foreignError is an error whose text a server wrote; of a status it shows the code and the message.
type foreignError struct{ cause error }

func (e *foreignError) Error() string {
	if s, ok := status.FromError(e.cause); ok {
		return s.Code().String() + ": " + printable(s.Message())
	}
	return printable(e.cause.Error())
}

func (e *foreignError) Unwrap() error { return e.cause }

// hint says what a person can do about it, where that is known.
func (e *EndpointError) hint() string {
	err := e.Err
	if _, ok := errors.AsType[*dial.ProxyError](err); ok {
		return "the proxy is the one in HTTPS_PROXY; WithNoProxy does without"
	}
	if hint := certificateHint(err); hint != "" {
		return hint
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server does not speak TLS on this port"
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.shown.hint()
	}
	if errors.Is(err, ErrIncompatible) {
		return "use another version of the client or of the server, or set skipCompatibilityCheck=true to try these"
	}
	if token, ok := errors.AsType[*credential.TokenError](err); ok && token.Status == http.StatusNotFound {
		return "the server gives no tokens: if it wants no authentication, say auth=none instead of a user and a password"
	}
	if e.Step == StepDial && errors.Is(err, context.DeadlineExceeded) {
		return "the server accepted nothing in time"
	}
	return ""
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"unicode"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/certerr"
)

var (
	// ErrNotCount says that a server answered a probe, but not with a non-negative decimal integer of at most 64 bytes.
	ErrNotCount = errors.New("the answer is not a count")
	// ErrProberClosed is returned by the calls of a prober that has been closed.
	ErrProberClosed = errors.New("prober is closed")

	errInvalidHTTP = errors.New("no valid HTTP answer")
	// errStreamRefused: over HTTP/2 the server takes fewer requests at a time than it was sent (RFC 9113 section 8.7).
	errStreamRefused = errors.New("no answer: the server takes no more requests on the connection")
	errNoID          = errors.New("not the id of a reservation")
)

// The operations in a ProbeError.
const (
	opCount   = "count"
	opReserve = "reserve"
	opRelease = "release"
)

// ProbeError says why a probe or a reservation failed. Its text is short and shows nothing of what the server sent but
// the status and, where TLS failed, what its certificate says.
type ProbeError struct {
	// Endpoint is the server that was asked.
	Endpoint discover.Endpoint
	// Op is "count", "reserve" or "release".
	Op string
	// Addr is the address that was connected to; the zero value when no connection was made.
	Addr netip.AddrPort
	// Status is the status of the answer; 0 when there was no answer.
	Status int
	// Err is the cause; nil when Status says it all. It matches context.DeadlineExceeded when the server was silent,
	// ErrNotCount when a count was expected and something else came, and ErrProberClosed.
	Err error
}

// Error names the operation, the endpoint, the address where it differs, and the cause.
func (e *ProbeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.Op, e.Endpoint.Addr())
	if e.Addr.IsValid() && e.Addr.String() != e.Endpoint.Addr() {
		fmt.Fprintf(&b, " on %s", e.Addr)
	}
	switch {
	case e.Err != nil:
		fmt.Fprintf(&b, ": %v", e.Err)
	default:
		fmt.Fprintf(&b, ": status %d %s", e.Status, http.StatusText(e.Status))
	}
	return strings.TrimSuffix(b.String(), " ")
}

// Unwrap returns Err.
func (e *ProbeError) Unwrap() error { return e.Err }

// quietError replaces the text of an error that quotes what a server sent.
type quietError struct {
	text  string
	cause error
}

func (e *quietError) Error() string { return e.text }
func (e *quietError) Unwrap() error { return e.cause }

// exchangeError says why there is no answer on a connection. Of the errors of net/http only those of the socket and of
// TLS pass with their text: the others may quote the answer.
func exchangeError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no answer: %w", contextError(ctx))
	}
	if refused := certerr.Explain(err, ""); errors.Is(refused, certerr.ErrClient) {
		return fmt.Errorf("no answer: %w", refused)
	}
	if socket, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("no answer: %w", socket)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &quietError{text: "no answer: the connection was closed", cause: err}
	}
	return &quietError{text: errInvalidHTTP.Error(), cause: errors.Join(errInvalidHTTP, err)}
}

// connectError says why there is no connection. The errors of lookups and dials are ours, and safe.
func connectError(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), ErrProberClosed) {
		return ErrProberClosed
	}
	return err
}

// contextError says why the context of a call has ended: by itself, or because the prober was closed.
func contextError(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrProberClosed) {
		return ErrProberClosed
	}
	return ctx.Err()
}

// handshakeError bounds the text of a failed TLS handshake, which may list the names of a certificate, and takes out
// what a terminal would act on.
func handshakeError(err error) error {
	const longest = 256
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, err.Error())
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return &quietError{text: "TLS handshake: " + text, cause: err}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"errors"
	"slices"
	"strconv"
)

// ErrRefused is found by errors.Is in the error of a client that was refused a token: its id, its secret or its rights are
// not what the server knows.
var ErrRefused = errors.New("the client was refused a token")

var (
	// ErrClosed is the cause of what a closed Bearer fails with.
	ErrClosed = errors.New("the credentials are closed")
	// errTooSoon: the token was renewed out of turn a moment ago.
	errTooSoon = errors.New("a token was renewed a moment ago and is refused all the same")
	// errSameToken: a source of tokens has no other one.
	errSameToken = errors.New("the source of tokens gave the token that was refused")
)

// Reason says in what way a token was not to be had.
type Reason int

// The reasons, in the order in which a request meets them.
const (
	// ReasonUnreachable: there was no connection, or it broke; Err says why.
	ReasonUnreachable Reason = iota + 1
	// ReasonTimeout: no whole answer came in time.
	ReasonTimeout
	// ReasonRedirect: the answer sends elsewhere. The secret is not taken there.
	ReasonRedirect
	// ReasonRefused: the client was refused. Status and Code say how.
	ReasonRefused
	// ReasonStatus: the answer has a status that is no answer to the question.
	ReasonStatus
	// ReasonTooLarge: the answer is longer than 64 KiB.
	ReasonTooLarge
	// ReasonMalformed: the answer is not HTTP, not JSON, or has no token in it that could be sent.
	ReasonMalformed
	// ReasonSource: the program's own source of tokens failed; Err says why.
	ReasonSource
)

// String says what went wrong, in words.
func (r Reason) String() string {
	switch r {
	case ReasonUnreachable:
		return "no connection, or a broken one"
	case ReasonTimeout:
		return "no answer in time"
	case ReasonRedirect:
		return "the answer is a redirect, which is not followed with a secret"
	case ReasonRefused:
		return "the credentials were refused"
	case ReasonStatus:
		return "unexpected status"
	case ReasonTooLarge:
		return "the answer is longer than 64 KiB"
	case ReasonMalformed:
		return "the answer is not that of a token endpoint"
	case ReasonSource:
		return "the token source failed"
	default:
		return "reason " + strconv.Itoa(int(r))
	}
}

// TokenError says why a token was not to be had. It holds no secret and nothing that the other side sent, save Code.
type TokenError struct {
	// Place is the host and port, and the path, that were asked; empty for a source of the program's own.
	Place  string
	Reason Reason
	// Status is the HTTP status of the answer; 0 when there was none.
	Status int
	// Code is the error code of the answer, one of RFC 6749 section 5.2; empty when it had none or another one.
	Code string
	// Err is the cause of ReasonUnreachable, ReasonTimeout and ReasonSource, as far as it cannot hold anything that the
	// other side sent; else nil.
	Err error
}

// Error names the place and the reason.
func (e *TokenError) Error() string {
	text := "ask for a token"
	if e.Place != "" {
		text = "ask " + e.Place + " for a token"
	}
	text += ": " + e.Reason.String()
	switch {
	case e.Code != "" && e.Status != 0:
		text += " (" + e.Code + ", status " + strconv.Itoa(e.Status) + ")"
	case e.Status != 0:
		text += " (status " + strconv.Itoa(e.Status) + ")"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *TokenError) Unwrap() error { return e.Err }

// Is says that a refusal is ErrRefused.
func (e *TokenError) Is(target error) bool { return target == ErrRefused && e.Reason == ReasonRefused }

// knownCode returns the code when it is one of RFC 6749 section 5.2: anything else is a text of the other side's making.
func knownCode(code string) string {
	known := []string{
		"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	}
	if slices.Contains(known, code) {
		return code
	}
	return ""
}

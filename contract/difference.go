// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind is a way in which a contract fails to serve another.
type Kind int

// The kinds of differences.
const (
	// ServiceRemoved: the service is not there.
	ServiceRemoved Kind = iota
	// MethodRemoved: the service is there without the method.
	MethodRemoved
	// RequestChanged: the method takes another message.
	RequestChanged
	// ResponseChanged: the method returns another message.
	ResponseChanged
	// StreamingChanged: one side streams where the other does not.
	StreamingChanged
	// MessageRemoved: the message is not defined.
	MessageRemoved
	// FieldRemoved: the message has no field of the number.
	FieldRemoved
	// FieldRetyped: the field of the number has another type.
	FieldRetyped
	// FieldRelabelled: the field of the number is repeated, required or in a oneof on one side only.
	FieldRelabelled
	// FieldRenamed: the field of the number has another name. The wire does not mind; JSON and generated code do.
	FieldRenamed
	// EnumRemoved: the enum is not defined.
	EnumRemoved
	// EnumValueRemoved: the enum has no value of the number.
	EnumValueRemoved
	// EnumValueRenamed: the value of the number has another name.
	EnumValueRenamed
)

//nolint:gochecknoglobals // a table that nobody changes
var kindNames = [...]string{
	ServiceRemoved: "service removed", MethodRemoved: "method removed", RequestChanged: "request changed",
	ResponseChanged: "response changed", StreamingChanged: "streaming changed", MessageRemoved: "message removed",
	FieldRemoved: "field removed", FieldRetyped: "field retyped", FieldRelabelled: "field relabelled",
	FieldRenamed: "field renamed", EnumRemoved: "enum removed", EnumValueRemoved: "enum value removed",
	EnumValueRenamed: "enum value renamed",
}

// String returns the name of the kind in lower case, such as "field removed".
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "kind " + strconv.Itoa(int(k))
	}
	return kindNames[k]
}

// Difference is one thing that one side needs and the other does not offer.
type Difference struct {
	Kind Kind
	// Path is what is concerned: "package.Service/Method", "package.Message.field", "package.Enum.VALUE".
	Path string
	// Detail is one sentence without a stop.
	Detail string
}

// String returns "path: detail", as one line of printable text.
func (d Difference) String() string { return Plain(d.Path + ": " + d.Detail) }

// Report is what a comparison found.
type Report struct {
	// Differences are the first 100, services in the order of their names and each with what belongs to it.
	Differences []Difference
	// More is how many there are beyond these.
	More int
}

// maxDifferences bounds a report: nobody reads more, and hostile contracts differ in thousands of ways.
const maxDifferences = 100

// Compatible says that nothing is missing.
func (r *Report) Compatible() bool { return len(r.Differences) == 0 }

// Lines returns the differences as text, and at the end how many more there are.
func (r *Report) Lines() []string {
	lines := make([]string, 0, len(r.Differences)+1)
	for _, d := range r.Differences {
		lines = append(lines, d.String())
	}
	if r.More > 0 {
		lines = append(lines, "and "+strconv.Itoa(r.More)+" more")
	}
	return lines
}

// Err returns an *IncompatibleError, or nil when nothing is missing.
func (r *Report) Err() error {
	if r.Compatible() {
		return nil
	}
	e := &IncompatibleError{More: r.More}
	for _, d := range r.Differences {
		e.add(d.String())
	}
	return e
}

func (r *Report) add(kind Kind, path, detail string) {
	if len(r.Differences) >= maxDifferences {
		r.More++
		return
	}
	r.Differences = append(r.Differences, Difference{Kind: kind, Path: path, Detail: detail})
}

// ErrIncompatible is found by errors.Is in every *IncompatibleError.
var ErrIncompatible = errors.New("the server's contract does not fit this client")

// IncompatibleError says that a server does not offer what a client needs of it.
type IncompatibleError struct {
	// Incompatibilities has one "path: description" for each thing that is missing or different, 64 at most, each one line
	// of printable text. It may be empty: a server need not say.
	Incompatibilities []string
	// More is how many there are beyond these.
	More int
	// ServerVersion and ServerProtocolVersion are what the server says of itself; empty when it says nothing.
	ServerVersion, ServerProtocolVersion string
}

const (
	// maxIncompatibilities bounds the list of an error.
	maxIncompatibilities = 64
	// saidIncompatibilities is how many of them the text of an error names.
	saidIncompatibilities = 3
)

// Refused returns the error of a server that says it is not compatible, for these reasons. What it wrote is made harmless
// and bounded.
func Refused(reasons []string, serverVersion, serverProtocolVersion string) *IncompatibleError {
	e := &IncompatibleError{ServerVersion: Plain(serverVersion), ServerProtocolVersion: Plain(serverProtocolVersion)}
	for _, reason := range reasons[:min(len(reasons), maxIncompatibilities)] {
		e.add(Plain(reason))
	}
	e.More = len(reasons) - len(e.Incompatibilities)
	return e
}

func (e *IncompatibleError) add(reason string) {
	if len(e.Incompatibilities) >= maxIncompatibilities {
		e.More++
		return
	}
	e.Incompatibilities = append(e.Incompatibilities, reason)
}

// Error names the server's version and the first things that are missing.
func (e *IncompatibleError) Error() string {
	var b strings.Builder
	b.WriteString(ErrIncompatible.Error())
	if e.ServerVersion != "" {
		b.WriteString(" (server version " + e.ServerVersion + ")")
	}
	said := min(len(e.Incompatibilities), saidIncompatibilities)
	separator := ": "
	for _, reason := range e.Incompatibilities[:said] {
		b.WriteString(separator + reason)
		separator = "; "
	}
	if said == 0 {
		b.WriteString(": it does not say why")
	}
	if rest := len(e.Incompatibilities) - said + e.More; rest > 0 {
		b.WriteString("; and " + strconv.Itoa(rest) + " more")
	}
	return b.String()
}

// Is says that the error is ErrIncompatible.
func (e *IncompatibleError) Is(target error) bool { return target == ErrIncompatible }

// maxPlain bounds a piece of text that a peer wrote, in bytes.
const maxPlain = 256

// Plain returns a text that a peer wrote as one line that does nothing to a terminal or a log: what cannot be printed
// becomes a question mark, and there are 256 bytes at most, with an ellipsis where more was cut off.
func Plain(text string) string {
	cut := len(text) > maxPlain
	if cut {
		end := maxPlain
		for end > maxPlain-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if cut {
		text += "…"
	}
	return text
}

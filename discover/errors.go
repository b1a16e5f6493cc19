// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The four ways in which a lookup fails. A *LookupError matches one of them at most.
var (
	// ErrNoSuchName says that the name does not exist: the reply code was NXDOMAIN.
	ErrNoSuchName = errors.New("no such name")
	// ErrNoRecords says that the name exists but that no record of it names a server: there is none, or all were left
	// out because they say "not here" or are malformed. A *LookupError says of which type.
	ErrNoRecords = errors.New("name without SRV records")
	// ErrServerFailed says that the name server did not answer the question: it replied SERVFAIL, REFUSED, FORMERR,
	// NOTIMP or another code of failure, referred to other servers, sent garbage, or could not be reached.
	ErrServerFailed = errors.New("name server failed")
	// ErrTimeout says that no answer came in time.
	ErrTimeout = errors.New("timed out")
)

// LookupError says why a lookup found no endpoints. It is made by resolvers and only read by others.
type LookupError struct {
	// Name is the name asked for, without its final dot, such as "_chronicle._tcp.prod.example".
	Name string
	// Type is the type of the records, "SRV", "A", "AAAA" or "A and AAAA"; empty means SRV.
	Type string
	// Server is the name server whose reply, or silence, decided; "host:port", empty when none was asked.
	Server string
	// Asked are all name servers that were asked, in order, each once.
	Asked []string
	// Kind is ErrNoSuchName, ErrNoRecords, ErrServerFailed or ErrTimeout; nil when the caller cancelled the lookup.
	Kind error
	// Code is the reply code, such as "NXDOMAIN" or "SERVFAIL"; empty without a reply.
	Code string
	// Err is the cause, where there is more to say than Kind and Code do: context.Canceled, or
	// context.DeadlineExceeded for the caller's deadline, the error of the socket, a *PartialError. May be nil.
	Err error
}

// Error names the query and the name server, and says what to do where that helps.
func (e *LookupError) Error() string {
	var b strings.Builder
	b.WriteString("look up " + recordsOf(e.Type))
	if e.Name != "" {
		b.WriteString(" of " + e.Name)
	}
	if e.Server != "" {
		b.WriteString(" at name server " + e.Server)
	}
	b.WriteString(": ")
	switch {
	case e.Kind != nil && e.Err != nil:
		fmt.Fprintf(&b, "%s: %v", e.kind(), e.Err)
	case e.Kind != nil:
		b.WriteString(e.kind())
	default:
		fmt.Fprintf(&b, "%v", e.Err)
	}
	if e.Code != "" && e.Code != codeNoError {
		b.WriteString(" (" + e.Code + ")")
	}
	if hint := e.hint(); hint != "" {
		b.WriteString("; " + hint)
	}
	if len(e.Asked) > 1 {
		b.WriteString("; asked in all: " + strings.Join(e.Asked, ", "))
	}
	return b.String()
}

// recordsOf names the records of a type.
func recordsOf(kind string) string {
	if kind == "" {
		kind = "SRV"
	}
	return kind + " records"
}

// kind is the text of Kind, with the type that was asked for in it.
func (e *LookupError) kind() string {
	if e.Kind == ErrNoRecords { //nolint:errorlint // the sentinel itself, whose text is about SRV
		return "name without " + recordsOf(e.Type)
	}
	return e.Kind.Error()
}

func (e *LookupError) hint() string {
	switch {
	case errors.Is(e.Kind, ErrNoSuchName):
		return "check the name, or add the records to its zone"
	case errors.Is(e.Kind, ErrNoRecords) && e.Err == nil && e.Name != "":
		return "add " + strings.Replace(recordsOf(e.Type), " and ", " or ", 1) + " for the servers to its zone"
	case errors.Is(e.Kind, ErrServerFailed) && e.Code == "REFUSED":
		return "the server does not answer for this name, ask another one"
	case errors.Is(e.Kind, ErrServerFailed) && e.Code == "":
		return "check that a DNS server listens there on UDP and TCP"
	case errors.Is(e.Kind, ErrTimeout) && e.Server != "":
		return "check that the server can be reached over UDP and TCP"
	default:
		return ""
	}
}

// Unwrap returns Kind and Err, as far as they are set.
func (e *LookupError) Unwrap() []error { return causes(e.Kind, e.Err) }

// causes returns those of the errors that are set.
func causes(errs ...error) []error {
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// Timeout says whether no answer came in time; it is part of net.Error.
func (e *LookupError) Timeout() bool { return errors.Is(e.Kind, ErrTimeout) }

// maxFaults bounds what a PartialError holds: an answer of 64 KiB has room for thousands of bad records.
const maxFaults = 16

// PartialError says that some records or endpoints of an answer were malformed and left out, or that half of the answer
// did not come. The endpoints beside it serve.
type PartialError struct {
	// Name is the name asked for, without its final dot; for a source that is no name server, what was asked.
	Name string
	// Type is the type of the records, as a *LookupError has it.
	Type string
	// Server is the name server that gave the answer; empty for another source.
	Server string
	// Dropped is how many records were left out; 0 when the answer to a part of the question is missing instead.
	Dropped int
	// Faults say what is wrong, each with the position of its record in the answer; the first 16. A *LookupError among
	// them says which part of the answer is missing.
	Faults []error
}

// Error names the query, the name server and the first faults.
func (e *PartialError) Error() string {
	const shown = 3
	var b strings.Builder
	switch {
	case e.Dropped == 0:
		fmt.Fprintf(&b, "%s of %s are incomplete", recordsOf(e.Type), e.Name)
	case e.Server == "":
		fmt.Fprintf(&b, "endpoints of %s: %d addresses left out", e.Name, e.Dropped)
	default:
		fmt.Fprintf(&b, "%s of %s at name server %s: %d malformed and left out", recordsOf(e.Type), e.Name, e.Server, e.Dropped)
	}
	for i, fault := range e.Faults[:min(shown, len(e.Faults))] {
		b.WriteString([...]string{": ", ", ", ", "}[i])
		b.WriteString(fault.Error())
	}
	if e.Dropped > shown {
		b.WriteString(", and more")
	}
	return b.String()
}

// StaleError says that a lookup failed and that the endpoints beside it are those of an earlier one.
type StaleError struct {
	// Cause is the failure of this lookup.
	Cause error
	// At is when the lookup that found the endpoints began; for a source that pushes, when they came.
	At time.Time
}

// Error says that old endpoints are used and why.
func (e *StaleError) Error() string {
	return fmt.Sprintf("using the endpoints found at %s: %v", e.At.UTC().Format(time.RFC3339), e.Cause)
}

// Unwrap returns Cause.
func (e *StaleError) Unwrap() error { return e.Cause }

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring

import (
	"strconv"
	"strings"
)

// Code names a rule that a connection string broke. Codes are stable: programs and other implementations may rely on
// them, unlike on the wording of an error.
type Code string

// The codes of a ParseError.
const (
	// CodeTooLong says that the string has more than MaxLength bytes.
	CodeTooLong Code = "too-long"
	// CodeScheme says that the string begins with neither chronicle:// nor chronicle+srv://.
	CodeScheme Code = "scheme"
	// CodeCredentialsUnescaped says that user or password hold a byte that has to be escaped.
	CodeCredentialsUnescaped Code = "credentials-unescaped"
	// CodeCredentialsIncomplete says that user or password is missing or empty.
	CodeCredentialsIncomplete Code = "credentials-incomplete"
	// CodeBadEscape says that a % is not followed by two hexadecimal digits.
	CodeBadEscape Code = "bad-escape"
	// CodeRedacted says that a secret is the mark that stands for one in a redacted string.
	CodeRedacted Code = "redacted"
	// CodeHostMissing says that there is no host, or that an entry of the list is empty.
	CodeHostMissing Code = "host-missing"
	// CodeHostName says that a host is not a DNS name.
	CodeHostName Code = "host-name"
	// CodeHostIPv4 says that a host ends in a number and is not an IPv4 address.
	CodeHostIPv4 Code = "host-ipv4"
	// CodeHostIPv6 says that a host in brackets is not an IPv6 address.
	CodeHostIPv6 Code = "host-ipv6"
	// CodeHostBrackets says that an IPv6 address lacks its brackets.
	CodeHostBrackets Code = "host-brackets"
	// CodePortMissing says that nothing follows the colon behind a host.
	CodePortMissing Code = "port-missing"
	// CodePort says that a port is not a number from 1 to 65535.
	CodePort Code = "port"
	// CodeSRVList says that chronicle+srv was given several names.
	CodeSRVList Code = "srv-list"
	// CodeSRVPort says that chronicle+srv was given a port.
	CodeSRVPort Code = "srv-port"
	// CodeSRVAddress says that chronicle+srv was given an IP address.
	CodeSRVAddress Code = "srv-address"
	// CodePath says that there is a path other than a single slash.
	CodePath Code = "path"
	// CodeFragment says that there is a fragment.
	CodeFragment Code = "fragment"
	// CodeOptionUnknown says that there is no option of that name.
	CodeOptionUnknown Code = "option-unknown"
	// CodeOptionRepeated says that an option was given twice.
	CodeOptionRepeated Code = "option-repeated"
	// CodeOptionValue says that the value of an option is not one it can have.
	CodeOptionValue Code = "option-value"
	// CodeOptionMisplaced says that an option needs chronicle+srv or another option.
	CodeOptionMisplaced Code = "option-misplaced"
	// CodeOptionControl says that an option holds a raw control byte.
	CodeOptionControl Code = "option-control"
	// CodeTLSRequired says that the string asks for a connection without TLS.
	CodeTLSRequired Code = "tls-required"
	// CodeAuthConflict says that two ways to authenticate were given.
	CodeAuthConflict Code = "auth-conflict"
)

// Part names the part of a connection string that an error is about.
type Part string

// The parts of a connection string.
const (
	PartString      Part = "string"
	PartScheme      Part = "scheme"
	PartCredentials Part = "credentials"
	PartHost        Part = "host"
	PartPort        Part = "port"
	PartPath        Part = "path"
	PartFragment    Part = "fragment"
	PartOption      Part = "option"
)

// NoOffset is the Offset of an error that is about parts given to New, where there is no text to point into.
const NoOffset = -1

// ParseError says why a connection string, or the parts of one, were refused.
//
// No field and no rendering holds anything of the input, so it may be logged and shown. It is a value that is not
// changed after it was returned, and is safe for concurrent use.
type ParseError struct {
	// Code is the rule that was broken.
	Code Code
	// Part is the part that broke it.
	Part Part
	// Index tells hosts and options apart: 1 is the first. It is 0 where a string has only one such part.
	Index int
	// Option is the name of the option, as the documentation spells it, when it is a known one; else empty.
	Option string
	// Offset is the position in the input, in bytes from its start, or NoOffset.
	Offset int
	// Reason says what is wrong.
	Reason string
	// Hint says what to write instead; it may be empty.
	Hint string
}

// Error returns one line: the part, the position, the reason and the hint.
func (e *ParseError) Error() string {
	var b strings.Builder
	b.WriteString("connstring: ")
	b.WriteString(string(e.Part))
	switch {
	case e.Option != "":
		b.WriteString(" " + e.Option)
	case e.Index > 0:
		b.WriteString(" " + strconv.Itoa(e.Index))
	}
	if e.Offset >= 0 {
		b.WriteString(" at byte " + strconv.Itoa(e.Offset))
	}
	b.WriteString(": " + e.Reason)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// at moves the error to a position in the input and returns it.
func (e *ParseError) at(offset int) *ParseError {
	e.Offset = offset
	return e
}

// shift moves the error from a position in a piece of the input to the position in the input, given where the piece
// starts, and returns it.
func (e *ParseError) shift(start int) *ParseError {
	e.Offset += start
	return e
}

// of says which option the error is about and returns it.
func (e *ParseError) of(id optionID) *ParseError {
	e.Option = options[id].name
	return e
}

// fault makes an error at the start of the piece it is about. The reason and the hint are always constants of this
// package: that is what keeps the input out of errors.
func fault(code Code, part Part, reason, hint string) *ParseError {
	return &ParseError{Code: code, Part: part, Reason: reason, Hint: hint}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

// mask stands for a secret wherever one would be shown. Parse refuses it where a secret is expected.
const mask = "***"

// Secret is a text that only Reveal gives away. Its zero value is the empty text, which means not set.
//
// Every other way of showing it gives "***", or nothing when it is empty: String, every verb of package fmt, text and
// JSON encoding, log records. It can only be encoded, not decoded. Compare two with Equal, not with ==. A Secret never
// changes and is safe for concurrent use.
type Secret struct {
	// The text sits behind a pointer because fmt cannot call methods on unexported fields: there it would print a
	// string as it is, and prints the address of a pointer.
	text *string
}

// NewSecret returns the text as a Secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the text itself. Never log it and never put it into an error.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero says whether the secret is empty, that is, not set.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// Equal says whether both hold the same text. How long it takes depends on the length only.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns "***", or "" when the secret is empty.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return mask
}

// Format implements fmt.Formatter: every verb prints what String returns, quoted for %q and %#v.
func (s Secret) Format(state fmt.State, verb rune) { formatRedacted(state, verb, s.String()) }

// LogValue implements slog.LogValuer with what String returns.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler with what String returns. The error is always nil.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// formatRedacted prints a text that is safe to show. Flags other than # are ignored: a width would be harmless and a
// precision useless.
func formatRedacted(state fmt.State, verb rune, text string) {
	if verb == 'q' || verb == 'v' && state.Flag('#') {
		text = strconv.Quote(text)
	}
	// A fmt.State keeps what is written to it in memory; it has no errors to tell.
	_, _ = io.WriteString(state, text)
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a text that only Reveal gives away, such as a connstring.Secret.
type Secret interface {
	// Reveal returns the text.
	Reveal() string
}

// mask stands for a token wherever one would be shown.
const mask = "***"

// hidden is a text that shows nowhere. It is kept behind a pointer, because fmt prints unexported fields without asking
// their methods.
type hidden struct{ text *string }

func hide(text string) hidden { return hidden{text: &text} }

func (h hidden) reveal() string {
	if h.text == nil {
		return ""
	}
	return *h.text
}

func (h hidden) String() string { return mask }

// Format prints the mask for every verb.
func (h hidden) Format(state fmt.State, _ rune) {
	_, _ = io.WriteString(state, mask) // a fmt.State keeps it in memory
}

func (h hidden) LogValue() slog.Value { return slog.StringValue(mask) }

func (h hidden) MarshalText() ([]byte, error) { return []byte(mask), nil }

// printBare prints a value for fmt, whatever the verb: fmt would take it apart, down to addresses in memory.
func printBare(state fmt.State, value fmt.Stringer) {
	_, _ = io.WriteString(state, value.String()) // a fmt.State keeps it in memory
}

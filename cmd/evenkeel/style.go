// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"charm.land/lipgloss/v2"
)

// palette is how things are marked. Its colours are those of the terminal's own theme, and of them those that most themes
// keep readable on dark and on light backgrounds, which yellow and blue are not. The zero value marks nothing.
type palette struct {
	strong, faint    lipgloss.Style
	good, alert, bad lipgloss.Style
}

func newPalette(colour bool) palette {
	if !colour {
		return palette{}
	}
	plain := lipgloss.NewStyle()
	return palette{
		strong: plain.Bold(true),
		faint:  plain.Faint(true),
		good:   plain.Foreground(lipgloss.Green),
		alert:  plain.Foreground(lipgloss.Magenta),
		bad:    plain.Foreground(lipgloss.Red),
	}
}

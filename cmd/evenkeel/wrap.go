// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// narrowest is the width below which breaking lines makes nothing more readable.
const narrowest = 20

// wrap breaks a line between its words so that no line is wider than width, and indents all but the first by hang
// columns. A word that is wider stays whole. The blanks in front of the first word are kept. A width of less than
// narrowest breaks nothing; that goes for 0, the width of what is no terminal.
func wrap(line string, width, hang int) []string {
	if width < narrowest || ansi.StringWidth(line) <= width {
		return []string{line}
	}
	hang = min(hang, width/2)
	words := strings.Fields(line)
	current := line[:len(line)-len(strings.TrimLeft(line, " "))]
	used := ansi.StringWidth(current)
	var lines []string
	for i, word := range words {
		w := ansi.StringWidth(word)
		switch {
		case i == 0:
		case used+1+w <= width:
			current, used = current+" ", used+1
		default:
			lines = append(lines, current)
			current, used = strings.Repeat(" ", hang), hang
		}
		current, used = current+word, used+w
	}
	return append(lines, current)
}

// wrapWidth is the width at which lines on the screen are broken; 0 where they are not.
func (s screen) wrapWidth() int {
	if !s.live() {
		return 0
	}
	width, _ := s.size()
	return width
}

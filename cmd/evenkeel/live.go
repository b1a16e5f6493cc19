// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"io"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Control sequences of ECMA-48 terminals. A terminal that does not know the synchronised update ignores it.
const (
	hideCursor  = "\x1b[?25l"
	showCursor  = "\x1b[?25h"
	beginUpdate = "\x1b[?2026h"
	endUpdate   = "\x1b[?2026l"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// live is a block of lines at the end of what a terminal shows, which is drawn anew in its place.
type live struct {
	w     io.Writer
	size  func() (width, height int)
	drawn []int // the widths of the lines that are on the screen
	last  string
}

// draw replaces the block.
func (l *live) draw(lines []string) { l.replace(nil, lines) }

// end leaves what is drawn where it is and gives the cursor back.
func (l *live) end() {
	l.drawn = nil
	_, _ = io.WriteString(l.w, showCursor) // a lost terminal shows in the next write of a result
}

// replace removes the block and writes lines that stay, then the new block.
func (l *live) replace(stay, block []string) {
	width, height := l.size()
	same := strconv.Itoa(width) + "\n" + strings.Join(block, "\n")
	if len(stay) == 0 && len(l.drawn) > 0 && same == l.last {
		return
	}
	l.last = same
	var b strings.Builder
	b.WriteString(beginUpdate + hideCursor)
	l.goBack(&b, width)
	for _, line := range stay {
		b.WriteString(line + clearLine + "\n")
	}
	// A block that is higher than the screen could not be taken back.
	block = block[:min(len(block), max(height-1, 0))]
	l.drawn = l.drawn[:0]
	for _, line := range block {
		line = ansi.Truncate(line, width, "…")
		l.drawn = append(l.drawn, ansi.StringWidth(line))
		b.WriteString(line + clearLine + "\n")
	}
	b.WriteString(clearBelow + endUpdate)
	_, _ = io.WriteString(l.w, b.String())
}

// goBack moves the cursor to the start of the block. A terminal that became narrower since has broken its lines.
func (l *live) goBack(b *strings.Builder, width int) {
	up := 0
	for _, w := range l.drawn {
		up += max(1, (w+width-1)/width)
	}
	if up > 0 {
		b.WriteString("\r\x1b[" + strconv.Itoa(up) + "A")
	}
}

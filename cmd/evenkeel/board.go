// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// group says how a client came to its server.
type group int

const (
	atHome   group = iota // it started there
	moved                 // it lost another server before
	newcomer              // it started after the first ones had settled
	groups
)

// seekerMark is the sign of a client that looks for a server.
const seekerMark = "○"

// mark is the sign of a client of the group: colours alone would not tell everybody.
func (g group) mark() string {
	return [groups]string{atHome: "■", moved: "◆", newcomer: "●"}[g]
}

func (p palette) of(g group) lipgloss.Style {
	return [groups]lipgloss.Style{atHome: {}, moved: p.alert, newcomer: p.good}[g]
}

// lane is a server on the board and the clients it has.
type lane struct {
	name    string
	clients [groups]int
	seekers int // clients that lost it and look for another
	down    bool
}

func (l lane) total() int {
	sum := 0
	for _, n := range l.clients {
		sum += n
	}
	return sum
}

// boardLines draws a lane for each server: its name, a sign for each client, and how many there are. Where the signs do
// not fit, each stands for several clients.
func boardLines(p palette, lanes []lane, width int) []string {
	nameWidth, most := 0, 1
	for _, l := range lanes {
		nameWidth = max(nameWidth, ansi.StringWidth(l.name))
		most = max(most, l.total()+l.seekers)
	}
	nameWidth = min(nameWidth, max(width/2, 8))
	room := max(width-nameWidth-len("  ")-len("  9999")-len("  "), 4)
	per := (most + room - 1) / room // clients for each sign
	lines := make([]string, 0, len(lanes))
	for _, l := range lanes {
		name := ansi.Truncate(l.name, nameWidth, "…")
		name += strings.Repeat(" ", nameWidth-ansi.StringWidth(name))
		count := fmt.Sprintf("%4d", l.total())
		bar := barOf(p, l.clients, per) + p.faint.Render(strings.Repeat(seekerMark, (l.seekers+per-1)/per))
		if l.down {
			name, count = p.faint.Render(name), p.bad.Render("down")
		}
		lines = append(lines, fmt.Sprintf("  %s  %s  %s", name, count, bar))
	}
	return lines
}

// barOf draws the clients of a lane. A group that has anyone has a sign.
func barOf(p palette, clients [groups]int, per int) string {
	var b strings.Builder
	for g, n := range clients {
		if n > 0 {
			b.WriteString(p.of(group(g)).Render(strings.Repeat(group(g).mark(), (n+per-1)/per)))
		}
	}
	return b.String()
}

// legend explains the signs that the lanes use, in as many lines as the width asks for.
func legend(p palette, lanes []lane, words [groups]string, width int) []string {
	var used [groups]int
	seekers := 0
	for _, l := range lanes {
		seekers += l.seekers
		for g, n := range l.clients {
			used[g] += n
		}
	}
	var parts []string
	for g, n := range used {
		if n > 0 {
			parts = append(parts, p.of(group(g)).Render(group(g).mark())+" "+p.faint.Render(words[g]))
		}
	}
	if seekers > 0 {
		parts = append(parts, p.faint.Render(seekerMark+" looking for a server"))
	}
	return flow(parts, width)
}

// flow puts parts beside each other, with three blanks between them, and goes on to a new line where the next one does
// not fit. There is at least one line.
func flow(parts []string, width int) []string {
	const indent, between = "  ", "   "
	lines := []string{""}
	for _, part := range parts {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = indent + part
		case ansi.StringWidth(*last+between+part) <= width:
			*last += between + part
		default:
			lines = append(lines, indent+part)
		}
	}
	return lines
}

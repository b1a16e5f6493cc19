// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/evenkeel-go/evenkeel"
)

// someLanes is a picture with everything that a board can show.
func someLanes() []lane {
	return []lane{
		{name: "node1", clients: [groups]int{atHome: 10, moved: 3}},
		{name: "node2", seekers: 4, down: true},
		{name: "node3.with-a-rather-long-name.cluster.test:35000", clients: [groups]int{atHome: 10, moved: 3, newcomer: 2}},
	}
}

func TestBoard(t *testing.T) {
	t.Parallel()
	words := [groups]string{atHome: "where it started", moved: "moved", newcomer: "new"}
	tests := []struct {
		name   string
		colour bool
		width  int
	}{
		{name: "board-plain", width: 80},
		{name: "board-colour", width: 80, colour: true},
		{name: "board-narrow", width: 34},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPalette(tt.colour)
			lines := append(boardLines(p, someLanes(), tt.width), legend(p, someLanes(), words, tt.width)...)
			for _, line := range lines {
				if w := ansi.StringWidth(line); w > tt.width {
					t.Errorf("line of %d columns, want %d at most: %q", w, tt.width, line)
				}
			}
			golden(t, tt.name, visible(lines))
		})
	}
}

func TestBoardScalesWhereSignsDoNotFit(t *testing.T) {
	t.Parallel()
	lanes := []lane{{name: "a", clients: [groups]int{atHome: 1000, moved: 1}}, {name: "b", clients: [groups]int{atHome: 500}}}
	lines := boardLines(palette{}, lanes, 60)
	big, small := strings.Count(lines[0], atHome.mark()), strings.Count(lines[1], atHome.mark())
	if big < 40 || small < big/2-1 || small > big/2+1 || strings.Count(lines[0], moved.mark()) != 1 {
		t.Errorf("got %d and %d signs, want about 2 : 1, and one for the group of one:\n%s", big, small, strings.Join(lines, "\n"))
	}
}

// visible makes control sequences readable in golden files.
func visible(lines []string) string {
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\x1b", "<ESC>") + "\n"
}

// aDemo is a demonstration in the middle of the kill.
func aDemo() *demo {
	d := &demo{servers: 3, clients: 6, started: 6, phase: phaseKilled, target: "node2.cluster.test:2", down: true}
	d.began = time.Now().Add(-5300 * time.Millisecond)
	d.tally.settlers = 6
	hosts := []string{"node1.cluster.test", "node2.cluster.test", "node3.cluster.test"}
	for client := range 6 {
		d.tally.apply(at(client, client+1, evenkeel.EventConnected, hosts[client%3]))
	}
	d.tally.apply(at(100, 2, evenkeel.EventLost, hosts[1]))
	d.tally.apply(at(100, 5, evenkeel.EventLost, hosts[1]))
	d.tally.apply(at(180, 5, evenkeel.EventConnected, hosts[2]))
	d.moved = []time.Duration{80 * time.Millisecond}
	for i := range d.tally.members {
		d.tally.members[i].last = strings.Replace(d.tally.members[i].last, "node2.cluster.test:1", d.target, 1)
	}
	d.tally.servers = []string{"node1.cluster.test:1", d.target, "node3.cluster.test:1"}
	return d
}

func TestDemoPicture(t *testing.T) {
	t.Parallel()
	for _, width := range []int{80, 40} {
		synctest.Test(t, func(t *testing.T) {
			v := &demoLive{demo: aDemo()}
			golden(t, map[int]string{80: "demo-killed", 40: "demo-killed-narrow"}[width], visible(v.lines(width)))
		})
	}
	synctest.Test(t, func(t *testing.T) {
		d := aDemo()
		d.phase, d.down = "", false
		d.checks = []check{{text: "this held", held: true}, {text: "this did not"}}
		v := &demoLive{demo: d, palette: newPalette(true)}
		golden(t, "demo-over", visible(append(v.lines(80), v.verdicts(80)...)))
	})
}

// TestTextOnATerminalIsBrokenBetweenWords draws what demo and connect say at their end.
func TestTextOnATerminalIsBrokenBetweenWords(t *testing.T) {
	t.Parallel()
	d := aDemo()
	d.console = newConsole(nil, nil, io.Discard, io.Discard)
	d.view = &demoLines{demo: d}
	d.expect(true, "%s of node2 moved and had a session again after 300 ms at most (1000 allowed)", plural(10, "client"))
	for _, width := range []int{80, 60, 40} {
		lines := (&demoLive{demo: d}).verdicts(width)
		golden(t, fmt.Sprintf("demo-verdicts-%d", width), visible(lines))
		for _, line := range lines {
			if w := ansi.StringWidth(line); w > width {
				t.Errorf("a line of %d columns, want %d at most: %q", w, width, line)
			}
		}
	}
}

// aScreen is a terminal of 80 columns in memory.
func aScreen() (*bytes.Buffer, live) {
	out := new(bytes.Buffer)
	return out, live{w: out, size: func() (int, int) { return 80, 24 }}
}

func TestDemoOnATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, screen := aScreen()
		d := aDemo()
		d.console = newConsole(nil, nil, out, out)
		d.view = &demoLive{demo: d, screen: screen}
		d.enter(phaseKilled)
		d.down = true
		d.record()
		d.expect(true, "this held")
		time.Sleep(time.Second)
		d.view.frame()
		d.view.end()
		var shown terminal
		shown.write(t, out.String())
		golden(t, "demo-terminal", visible(shown.rows))
		if shown.hidden {
			t.Error("the cursor is still hidden at the end")
		}
		if _, connections := d.reports[0].Connections[d.target]; connections {
			t.Error("the dead server is among those alive")
		}
	})
}

func TestConnectOnATerminal(t *testing.T) {
	t.Parallel()
	for name, clients := range map[string]int{"connect-terminal-few": 3, "connect-terminal-many": 40} {
		synctest.Test(t, func(t *testing.T) {
			out, screen := aScreen()
			h := &holding{console: newConsole(nil, nil, out, out), clients: clients, began: time.Now(), length: time.Minute}
			v := &connectLive{holding: h, screen: screen}
			feed := func(e fleetEvent) {
				e.Time = time.Now().UTC()
				since, recovered := h.tally.apply(e)
				v.event(e, since, recovered)
			}
			for client := range clients {
				feed(at(0, client+1, evenkeel.EventConnected, string(rune('a'+client%2))))
			}
			time.Sleep(time.Second)
			v.frame(time.Now())
			feed(at(0, 1, evenkeel.EventLost, "a"))
			time.Sleep(time.Second)
			feed(at(0, 1, evenkeel.EventConnected, "b"))
			feed(at(0, 2, evenkeel.EventLost, "b"))
			v.frame(time.Now())
			var shown terminal
			shown.write(t, out.String())
			out.Reset()
			board := visible(shown.rows)
			v.summary(connectSummary{Clients: clients, Ready: clients - 1, Connections: h.tally.connections(), Recovery: summarise(h.tally.recoveries)})
			shown.write(t, out.String())
			golden(t, name, board+"--\n"+visible(shown.rows))
		})
	}
}

// terminal is what a screen of lines shows after text and control sequences of the kind that live writes: each line is
// written from its start and cleared behind its end.
type terminal struct {
	rows   []string
	row    int
	begun  bool // something was written on this line since the cursor came to its start
	hidden bool
}

func (s *terminal) write(t *testing.T, text string) {
	t.Helper()
	for text != "" {
		for len(s.rows) <= s.row {
			s.rows = append(s.rows, "")
		}
		switch {
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= '@' && r <= '~' }) + 2
			s.control(t, text[2:end], text[end])
			text = text[end+1:]
		case text[0] == '\n':
			s.row, s.begun, text = s.row+1, false, text[1:]
		case text[0] == '\r':
			s.begun, text = false, text[1:]
		default:
			end := strings.IndexAny(text+"\n", "\x1b\n\r")
			s.rows[s.row], s.begun, text = text[:end], true, text[end:]
		}
	}
}

func (s *terminal) control(t *testing.T, argument string, final byte) {
	t.Helper()
	switch final {
	case 'A':
		n, err := strconv.Atoi(argument)
		if err != nil || n > s.row {
			t.Errorf("up by %q lines from line %d", argument, s.row)
			return
		}
		s.row -= n
	case 'J':
		s.rows = s.rows[:s.row]
	case 'K':
		if !s.begun {
			s.rows[s.row] = ""
		}
	case 'h', 'l':
		if argument == "?25" {
			s.hidden = final == 'l'
		}
	default:
		t.Errorf("unexpected control sequence %q", argument+string(final))
	}
}

func TestLiveDrawsInPlace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	width, height := 20, 10
	l := &live{w: &out, size: func() (int, int) { return width, height }}
	var screen terminal
	show := func(want ...string) {
		t.Helper()
		screen.write(t, out.String())
		out.Reset()
		if got := strings.TrimSuffix(strings.Join(screen.rows, "\n"), "\n"); got != strings.Join(want, "\n") {
			t.Errorf("screen:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
		}
	}
	l.draw([]string{"one", "two"})
	show("one", "two")
	if !screen.hidden {
		t.Error("the cursor is not hidden while a block is drawn")
	}
	l.draw([]string{"three"})
	show("three")
	l.replace([]string{"stays"}, []string{"four", "five"})
	show("stays", "four", "five")
	l.draw([]string{"a line of more than twenty columns"})
	show("stays", "a line of more than…")
	l.draw([]string{"a line of more than twenty columns"})
	if out.Len() > 0 {
		t.Errorf("the same picture was written again: %q", out.String())
	}
	height = 3
	l.draw([]string{"1", "2", "3", "4"})
	show("stays", "1", "2")
	l.end()
	show("stays", "1", "2")
	if screen.hidden {
		t.Error("the cursor is still hidden at the end")
	}
}

func TestLiveGoesBackOverLinesThatANarrowerTerminalBroke(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	width := 40
	l := &live{w: &out, size: func() (int, int) { return width, 24 }}
	l.draw([]string{strings.Repeat("x", 35), "short"})
	width = 10
	out.Reset()
	l.draw([]string{"next"})
	if want := "\r\x1b[5A"; !strings.Contains(out.String(), want) {
		t.Errorf("got %q, want it to go up 4 lines and 1", out.String())
	}
}

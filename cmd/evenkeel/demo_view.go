// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// demoView shows a demonstration.
type demoView interface {
	entered() // a phase has begun
	recorded(phaseReport)
	checked(check)
	frame() // time has passed
	end()   // it is over
	abort() // it was cut short
}

func newDemoView(d *demo) demoView {
	p := newPalette(d.console.outScreen.colour)
	if d.console.outScreen.live() && !d.asJSON {
		return &demoLive{demo: d, palette: p, screen: live{w: d.console.out, size: d.console.outScreen.size}}
	}
	return &demoLines{demo: d}
}

// headline is what happens in a phase.
func (d *demo) headline(phase phaseName) string {
	victim := shortServer(d.target)
	switch phase {
	case phaseStart:
		return fmt.Sprintf("%d clients start and find %d servers through DNS", d.clients, d.servers)
	case phaseKilled:
		return victim + " is killed without notice, its clients move"
	default:
		return fmt.Sprintf("%s comes back, %d new clients start", victim, d.newcomers())
	}
}

// demoLines shows it in lines that stay: on standard output, or, where that is for JSON, on standard error.
type demoLines struct{ demo *demo }

func (v *demoLines) say(title phaseName, format string, args ...any) {
	line := fmt.Sprintf("%-9s ", title) + fmt.Sprintf(format, args...)
	if v.demo.asJSON {
		v.demo.console.complain("%s", line)
		return
	}
	v.demo.console.printf("%s", line)
}

func (v *demoLines) entered() { v.say(v.demo.phase, "%s", v.demo.headline(v.demo.phase)) }

func (v *demoLines) recorded(r phaseReport) {
	v.say("", "%s (max/mean %.2f)", listed(r.Connections), r.MaxOverMean)
}

func (v *demoLines) checked(c check) {
	verdict := "ok"
	if !c.held {
		verdict = "FAILED"
	}
	v.say("", "%s: %s", verdict, c.text)
}

func (v *demoLines) frame() {}

func (v *demoLines) abort() {}

func (v *demoLines) end() {
	if d := v.demo; d.asJSON {
		d.console.object(demoReport{Servers: d.servers, Clients: d.clients, Phases: d.reports})
	}
}

// demoLive draws it.
type demoLive struct {
	demo    *demo
	palette palette
	screen  live
}

func (v *demoLive) entered() { v.frame() }

func (v *demoLive) recorded(phaseReport) {}

func (v *demoLive) checked(check) {}

func (v *demoLive) frame() {
	width, _ := v.screen.size()
	v.screen.draw(v.lines(width))
}

func (v *demoLive) end() {
	v.demo.phase = ""
	v.frame()
	v.screen.end()
	width, _ := v.screen.size()
	for _, line := range v.verdicts(width) {
		v.demo.console.printf("%s", line)
	}
}

func (v *demoLive) abort() { v.screen.end() }

// lines is the whole picture.
func (v *demoLive) lines(width int) []string {
	width = min(width, 100)
	d, p := v.demo, v.palette
	lines := []string{"", v.title(width), ""}
	lines = append(lines, v.scenes()...)
	lines = append(lines, "")
	lanes := d.tally.lanes(shortServer)
	for i := range lanes {
		lanes[i].down = d.down && lanes[i].name == shortServer(d.target)
	}
	lines = append(lines, boardLines(p, lanes, width)...)
	words := [groups]string{atHome: "where it started", moved: "moved", newcomer: "new"}
	lines = append(append(lines, ""), legend(p, lanes, words, width)...)
	lines = append(append(lines, ""), wrap("  "+v.progress(), width, 2)...)
	return append(lines, "")
}

func (v *demoLive) title(width int) string {
	d, p := v.demo, v.palette
	left := fmt.Sprintf("Evenkeel: a fleet of clients on %d servers", d.servers)
	right := fmt.Sprintf("%.1f s", time.Since(d.began).Seconds())
	gap := max(1, width-4-ansi.StringWidth(left)-len(right))
	return "  " + p.strong.Render(left) + strings.Repeat(" ", gap) + p.faint.Render(right)
}

// scenes lists the phases: those that are over, the one that runs, those to come.
func (v *demoLive) scenes() []string {
	d, p := v.demo, v.palette
	var lines []string
	over := true
	for _, phase := range []phaseName{phaseStart, phaseKilled, phaseReturned} {
		text := d.headline(phase)
		switch {
		case phase == d.phase:
			over = false
			lines = append(lines, "  "+p.strong.Render("▸ "+text))
		case over:
			lines = append(lines, "  "+p.good.Render("✓")+" "+text)
		default:
			lines = append(lines, "    "+p.faint.Render(text))
		}
	}
	return lines
}

func (v *demoLive) progress() string {
	d, p := v.demo, v.palette
	started, ready := d.started, d.tally.ready()
	text := plural(ready, "client") + " ready"
	if ready < started {
		text += ", " + p.alert.Render(fmt.Sprintf("%d on their way", started-ready))
	}
	if moved := summarise(d.moved); moved != nil {
		text += fmt.Sprintf("; %d moved: median %.0f ms, at most %.0f ms", moved.Count, moved.Median, moved.Max)
	}
	return text
}

// verdictHang is where the text of an expectation begins.
const verdictHang = 4

// verdicts lists the expectations.
func (v *demoLive) verdicts(width int) []string {
	var lines []string
	for _, c := range v.demo.checks {
		sign := v.palette.good.Render("✓")
		if !c.held {
			sign = v.palette.bad.Render("✗")
		}
		lines = append(lines, wrap("  "+sign+" "+c.text, width, verdictHang)...)
	}
	return append(lines, "")
}

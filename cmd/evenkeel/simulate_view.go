// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/evenkeel-go/evenkeel/sim"
)

// progressWidth is that of the bar.
const progressWidth = 30

// progress is a bar on standard error, where that is a terminal; elsewhere it is silent.
type progress struct {
	console *console
	what    string
	screen  *live
	drawn   int // in steps of the bar
}

func newProgress(c *console, what string) *progress {
	p := &progress{console: c, what: what, drawn: -1}
	if c.errScreen.live() {
		p.screen = &live{w: c.err, size: c.errScreen.size}
	}
	return p
}

// show draws the bar when it has moved.
func (p *progress) show(done, all int) {
	const steps = 8 // of one column
	if p.screen == nil {
		return
	}
	step := done * progressWidth * steps / max(all, 1)
	if step == p.drawn {
		return
	}
	p.drawn = step
	full := strings.Repeat("█", step/steps)
	part := []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}[step%steps]
	rest := strings.Repeat(" ", progressWidth-(step+steps-1)/steps)
	p.screen.draw([]string{fmt.Sprintf("%s ▕%s%s%s▏ %d of %d", p.what, full, part, rest, done, all)})
}

// end takes the bar away.
func (p *progress) end() {
	if p.screen == nil {
		return
	}
	p.screen.draw(nil)
	p.screen.end()
}

// showSuite prints the rows of a suite.
func (s *simulation) showSuite(rows []sim.Measured) {
	marks := newPalette(s.console.outScreen.colour)
	const keys = 4 // down to the algorithm
	sheet := sheet{columns: []column{
		{"clients", true},
		{"servers", true},
		{"rtt", true},
		{"algorithm", false},
		{"max/mean", true},
		{"±", true},
		{"requests", true},
		{"decide", true},
		{"bar", true},
		{"met", false},
	}}
	for i := range rows {
		m := &rows[i]
		cells := plain(
			strconv.Itoa(m.Bar.Clients), strconv.Itoa(m.Bar.Servers), m.Bar.RTT.String(), string(m.Algorithm),
			showRatio(m.MaxOverMean), fmt.Sprintf("%.3f", m.StandardError), fmt.Sprintf("%.1f", m.RequestsPerClient),
			showMillis(m.DecideMean), fmt.Sprintf("%.3f", m.Most), "yes",
		)
		met := &cells[len(cells)-1]
		met.style = marks.good
		if !m.Met {
			met.text, met.style = "no", marks.bad
		}
		sheet.add(cells...)
	}
	s.console.showFolded(&sheet, marks, keys, "bar")
}

// missed fails where ours missed a bar.
func missed(rows []sim.Measured) error {
	n := 0
	for i := range rows {
		if a := rows[i].Algorithm; !rows[i].Met && (a == sim.Evenkeel || a == sim.EvenkeelStock) {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("our algorithm missed %s", plural(n, "bar"))
	}
	return nil
}

// showScenario prints the comparison of the algorithms.
func (s *simulation) showScenario(scenario *sim.Scenario, compared []sim.Compared) {
	marks := newPalette(s.console.outScreen.colour)
	s.console.printf("%s: %s, %s, round trip %v, %s\n", scenario.Name, plural(scenario.Clients, "client"),
		plural(scenario.Servers, "server"), scenario.RTT, plural(s.repeats, "repeat"))
	sheet := sheet{columns: []column{
		{"algorithm", false}, {"max/mean", true}, {"±", true}, {"worst", true}, {"requests", true}, {"decide", true}, {"connected", true},
	}}
	if tracked(scenario) {
		sheet.columns = append(sheet.columns, column{"even", true}, column{"after", true}, column{"longest", true})
	}
	if scenario.Rebalance > 0 {
		sheet.columns = append(sheet.columns, column{"moved", true}, column{"twice", true})
	}
	if scenario.StockClients > 0 {
		sheet.columns = append(sheet.columns, column{"stock max/mean", true}, column{"stock load", true}, column{"stock decide", true})
	}
	best := math.Inf(1)
	for i := range compared {
		if ratio := compared[i].MaxOverMean; ratio > 0 {
			best = min(best, ratio)
		}
	}
	for i := range compared {
		c := &compared[i]
		cells := plain(
			string(c.Algorithm), showRatio(c.MaxOverMean), fmt.Sprintf("%.3f", c.StandardError), showRatio(c.Worst),
			fmt.Sprintf("%.1f", c.RequestsPerClient), showMillis(c.DecideMean), fmt.Sprintf("%.0f", c.Connected),
		)
		switch c.MaxOverMean {
		case 0:
			cells[2].text = noValue
		case best:
			cells[1].style = marks.good
		}
		sheet.add(append(cells, s.further(scenario, c)...)...)
	}
	s.console.showFolded(&sheet, marks, 1, "even", "moved", "stock max/mean")
}

// further are the cells that only some scenarios have.
func (s *simulation) further(scenario *sim.Scenario, c *sim.Compared) []cell {
	var more []string
	if tracked(scenario) {
		after, longest := noValue, noValue
		if c.Even > 0 {
			after, longest = c.EvenAfter.Round(time.Second).String(), c.EvenMost.Round(time.Second).String()
		}
		more = append(more, fmt.Sprintf("%d of %d", c.Even, s.repeats), after, longest)
	}
	if scenario.Rebalance > 0 {
		more = append(more, fmt.Sprintf("%.1f %%", 100*c.Rebalanced), strconv.Itoa(c.RebalancedTwice))
	}
	if scenario.StockClients > 0 {
		more = append(more, showRatio(c.StockMaxOverMean), showRatio(c.StockLoad), showMillis(c.StockDecideMean))
	}
	return plain(more...)
}

// noValue stands where there is no value.
const noValue = "–"

// showRatio shows a ratio to a mean, which is 0 where there is none.
func showRatio(x float64) string {
	if x == 0 {
		return noValue
	}
	return fmt.Sprintf("%.3f", x)
}

func showMillis(d time.Duration) string { return d.Round(time.Millisecond).String() }

// rounded leaves what is not noise.
func rounded(x float64) float64 {
	const places = 1e5
	return math.Round(x*places) / places
}

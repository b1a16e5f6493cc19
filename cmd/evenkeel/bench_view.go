// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"time"
)

// show prints what was measured of a fleet.
func (b *bench) show(one crowd, rows []benchRow, first bool) {
	if b.asJSON {
		for _, row := range rows {
			b.console.object(row)
		}
		return
	}
	if !first {
		b.console.printf("")
	}
	marks := newPalette(b.console.outScreen.colour)
	b.console.printf("%s on %s, jitter %v, delay %v: %.4g for each server",
		plural(one.clients, "client"), plural(one.servers, "server"), one.jitter, one.delay, rows[0].Mean)
	sheet := sheet{columns: []column{
		{"algorithm", false},
		{"max", true},
		{"max/mean", true},
		{"simulated", true},
		{"agree", false},
		{"machine bound", false},
		{"requests", true},
		{"failed", true},
		{"ready", true},
		{"p99", true},
		{"age", true},
		{"spread", true},
		{"at once", true},
	}}
	for _, row := range rows {
		cells := plain(
			string(row.Algorithm), fmt.Sprintf("%.1f", row.Max), fmt.Sprintf("%.3f", row.MaxOverMean), fmt.Sprintf("%.1f", row.SimulatedMax),
			"yes", "no", fmt.Sprintf("%.1f", row.RequestsPerClient), fmt.Sprint(row.FailedProbes+row.FailedReservations),
			showMilliseconds(row.ReadyMedian), showMilliseconds(row.ReadyP99),
			showMilliseconds(row.Age), showMilliseconds(row.Spread), fmt.Sprintf("%.0f", row.AtOnce),
		)
		agree, bound, failed := &cells[4], &cells[5], &cells[7]
		agree.style = marks.good
		if !row.Agree {
			agree.text, agree.style = "no", marks.bad
		}
		if row.failing {
			agree.style, failed.style = marks.faint, marks.alert
		}
		if row.MachineBound { // then it says little whether the two agree
			agree.style, bound.text, bound.style = marks.faint, "yes", marks.alert
		}
		sheet.add(cells...)
	}
	b.console.showFolded(&sheet, marks, 1, "requests")
	for _, row := range rows {
		if row.failing {
			b.console.complain("warning: %s: %s and %s failed, so the figures do not tell how the algorithm spreads clients: those that miss counts pick among the others, or blindly",
				row.Algorithm, plural(int(row.FailedProbes), "probe"), plural(int(row.FailedReservations), "reservation"))
		}
		if row.MachineBound {
			b.console.complain("warning: %s: this machine was the bottleneck, so it means little whether the two agree: counts were %s old instead of %v, and spread over %s instead of %v; give a longer --jitter or fewer --clients",
				row.Algorithm, showMilliseconds(row.Age), one.delay, showMilliseconds(row.Spread), one.jitter)
		}
	}
}

// showMilliseconds shows a time as people write it.
func showMilliseconds(ms float64) string {
	d := fromMilliseconds(ms)
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func fromMilliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

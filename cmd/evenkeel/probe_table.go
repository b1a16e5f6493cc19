// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"time"

	"github.com/evenkeel-go/evenkeel/balance"
)

// round is what one round of probes brought.
type round struct {
	seen   []balance.Observation
	chance []float64 // of each of the seen; nil when none of them gave its count
	at     time.Time
}

// The columns of the table that a narrow terminal can do without: priority and weight where they are the same for all,
// and the HTTP version.
const (
	columnPriority = "PRIO"
	columnWeight   = "WEIGHT"
	columnHTTP     = "HTTP"
)

// table renders the round for a person, on a terminal of so many columns.
func (r round) table(p palette, width int) []string {
	list := r.sheet(p)
	for _, title := range []string{columnPriority, columnWeight, columnHTTP} {
		if width < narrowest || list.width() <= width {
			break
		}
		if title == columnHTTP || list.same(title) {
			list.drop(title)
		}
	}
	return list.linesWithin(p, width)
}

func (r round) sheet(p palette) *sheet {
	list := &sheet{columns: []column{
		{"PICK", true},
		{"ENDPOINT", false},
		{columnPriority, true},
		{columnWeight, true},
		{"COUNT", true},
		{"LATENCY", true},
		{columnHTTP, false},
		{"CERTIFICATE, OR WHY NOT", false},
	}}
	for i, o := range r.seen {
		e := o.Endpoint
		row := plain("", e.Addr(), number(e.Priority), number(e.Weight), "-", "-", "-", "")
		if len(r.chance) > 0 && r.chance[i] > 0 {
			row[0] = cell{fmt.Sprintf("%.0f%%", 100*r.chance[i]), p.good}
		}
		last := &row[len(row)-1]
		if o.Err != nil {
			*last = cell{whyNot(o.Err), p.bad}
		} else {
			row[4].text, row[5].text, row[6].text = number(o.Count.Connections), shortDuration(o.Count.RTT), o.Count.Proto
			last.text = describeCertificate(o.Count.TLS, r.at).String()
		}
		list.add(row...)
	}
	return list
}

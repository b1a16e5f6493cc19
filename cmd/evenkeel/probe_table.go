// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"time"
)

// round is what one round of probes brought.
type round struct {
	seen   []candidate
	chance []float64 // of each of the seen; nil when none of them gave its count
	at     time.Time
}

// The columns of the table that a narrow terminal can do without: priority and weight where they are the same for all,
// and the HTTP version. That of the capacities is only there where one is known.
const (
	columnPriority = "PRIO"
	columnWeight   = "WEIGHT"
	columnCapacity = "CAPACITY"
	columnHTTP     = "HTTP"
)

// table renders the round for a person, on a terminal of so many columns.
func (r round) table(p palette, width int) []string {
	list := r.sheet(p)
	for _, title := range []string{columnPriority, columnWeight, columnCapacity, columnHTTP} {
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
		{columnCapacity, true},
		{"COUNT", true},
		{"LATENCY", true},
		{columnHTTP, false},
		{"CERTIFICATE, OR WHY NOT", false},
	}}
	told := false
	for i, o := range r.seen {
		e := o.Endpoint
		row := plain("", e.Addr(), number(e.Priority), number(e.Weight), "-", "-", "-", "-", "")
		if len(r.chance) > 0 && r.chance[i] > 0 {
			row[0] = cell{fmt.Sprintf("%.0f%%", 100*r.chance[i]), p.good}
		}
		last := &row[len(row)-1]
		if o.capacity() > 0 {
			row[4].text = number(o.capacity())
			told = true
		}
		if o.Err == nil {
			row[5].text, row[6].text, row[7].text = number(o.Count.Connections), shortDuration(o.Count.RTT), o.Count.Proto
			last.text = describeCertificate(o.Count.TLS, r.at).String()
		} else {
			*last = cell{whyNot(o.Err), p.bad}
		}
		switch {
		case o.draining():
			*last = cell{"draining", p.alert}
		case o.misfit != nil:
			*last = cell{"does not serve what a session needs", p.bad}
		}
		list.add(row...)
	}
	if !told {
		list.drop(columnCapacity)
	}
	return list
}

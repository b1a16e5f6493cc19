// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import "slices"

// folds parts a sheet that is wider than width into several, one below the other. Each has the first so many columns, the
// keys, which say what a row is about, and of the others as many as there is room for. Those from one of the breaks, which
// are titles of columns, to the next stay together where they can. A width of less than narrowest parts nothing.
func (s *sheet) folds(width, keys int, breaks ...string) []*sheet {
	if width < narrowest || s.width() <= width {
		return []*sheet{s}
	}
	var parts [][]int // the columns of each
	fits := func(columns []int) bool { return s.pick(columns).width() <= width }
	head := indices(0, keys)
	part := head
	flush := func() {
		if len(part) > keys {
			parts, part = append(parts, part), head
		}
	}
	for from := keys; from < len(s.columns); {
		to := from + 1
		for to < len(s.columns) && !slices.Contains(breaks, s.columns[to].title) {
			to++
		}
		group := indices(from, to)
		if !fits(slices.Concat(part, group)) {
			flush()
		}
		for _, column := range group {
			if !fits(slices.Concat(part, []int{column})) {
				flush()
			}
			part = slices.Concat(part, []int{column})
		}
		from = to
	}
	flush()
	sheets := make([]*sheet, len(parts))
	for i, columns := range parts {
		sheets[i] = s.pick(columns)
	}
	return sheets
}

// pick returns a sheet of some of the columns.
func (s *sheet) pick(columns []int) *sheet {
	picked := &sheet{}
	for _, at := range columns {
		picked.columns = append(picked.columns, s.columns[at])
	}
	for _, row := range s.rows {
		cells := make([]cell, len(columns))
		for i, at := range columns {
			cells[i] = row[at]
		}
		picked.add(cells...)
	}
	return picked
}

// indices are the numbers from one up to another, without that.
func indices(from, to int) []int {
	all := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

// showFolded prints a sheet, in several when the terminal is too narrow for it.
func (c *console) showFolded(s *sheet, marks palette, keys int, breaks ...string) {
	for i, part := range s.folds(c.outScreen.wrapWidth(), keys, breaks...) {
		if i > 0 {
			c.printf("")
		}
		for _, line := range part.lines(marks) {
			c.printf("%s", line)
		}
	}
}

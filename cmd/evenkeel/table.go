// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
)

// gap parts two columns.
const gap = 2

// column is a column of a sheet.
type column struct {
	title   string
	numbers bool // aligned to the right
}

// cell is what stands in a column of a row.
type cell struct {
	text  string
	style lipgloss.Style
}

// plain makes cells without a style.
func plain(texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, text := range texts {
		cells[i].text = text
	}
	return cells
}

// sheet is a table without lines around it: what is listed can be read by a person and cut by a program.
type sheet struct {
	columns []column
	rows    [][]cell
}

func (s *sheet) add(cells ...cell) { s.rows = append(s.rows, cells) }

// drop removes a column.
func (s *sheet) drop(title string) {
	at := s.index(title)
	s.columns = slices.Delete(s.columns, at, at+1)
	for i, row := range s.rows {
		s.rows[i] = slices.Delete(row, at, at+1)
	}
}

// same says whether there is a column in which all rows have the same.
func (s *sheet) same(title string) bool {
	at := s.index(title)
	return at >= 0 && !slices.ContainsFunc(s.rows, func(row []cell) bool { return row[at].text != s.rows[0][at].text })
}

func (s *sheet) index(title string) int {
	return slices.IndexFunc(s.columns, func(c column) bool { return c.title == title })
}

// start is where a column begins.
func (s *sheet) start(column int) int {
	start := 0
	for i, c := range s.columns[:column] {
		width := ansi.StringWidth(c.title)
		for _, row := range s.rows {
			width = max(width, ansi.StringWidth(row[i].text))
		}
		start += width + gap
	}
	return start
}

// width is that of the widest row.
func (s *sheet) width() int { return s.start(len(s.columns)) - gap }

// lines renders the sheet.
func (s *sheet) lines(p palette) []string {
	titles := make([]string, len(s.columns))
	for i, c := range s.columns {
		titles[i] = c.title
	}
	rows := make([][]string, len(s.rows))
	for i, row := range s.rows {
		for _, c := range row {
			rows[i] = append(rows[i], c.style.Render(c.text))
		}
	}
	rendered := table.New().
		Border(lipgloss.Border{}).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderColumn(false).BorderHeader(false).BorderRow(false).
		Headers(titles...).Rows(rows...).
		StyleFunc(func(row, col int) lipgloss.Style {
			style := lipgloss.NewStyle()
			if row == table.HeaderRow {
				style = p.faint
			}
			if s.columns[col].numbers {
				style = style.Align(lipgloss.Right)
			}
			if col < len(s.columns)-1 {
				style = style.PaddingRight(gap)
			}
			return style
		}).
		String()
	lines := strings.Split(rendered, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

// The room that the last column needs so that its words can be broken inside of it, and where they begin on lines of
// their own, below the row, otherwise.
const (
	leastRoom = 24
	outdented = 6
)

// linesWithin renders the sheet no wider than width, as far as the other columns allow: it breaks the words of the last
// column. A width of less than narrowest changes nothing.
func (s *sheet) linesWithin(p palette, width int) []string {
	if width < narrowest || s.width() <= width {
		return s.lines(p)
	}
	last := len(s.columns) - 1
	indent := s.start(last)
	below := width-indent < leastRoom
	if below {
		indent = outdented
	}
	cut := sheet{columns: slices.Clone(s.columns)}
	rest := make([][]string, len(s.rows)) // lines under each row
	for i, row := range s.rows {
		note := row[last]
		pieces := wrap(note.text, width-indent, 0)
		row = slices.Clone(row)
		if !below {
			row[last].text, pieces = pieces[0], pieces[1:]
		}
		cut.add(row...)
		for _, piece := range pieces {
			rest[i] = append(rest[i], strings.Repeat(" ", indent)+note.style.Render(piece))
		}
	}
	if below {
		cut.drop(s.columns[last].title)
	}
	lines := cut.lines(p)
	whole := lines[:1:1]
	for i, line := range lines[1:] {
		whole = append(append(whole, line), rest[i]...)
	}
	return whole
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
)

// column is a column of a sheet.
type column struct {
	title   string
	numbers bool // aligned to the right
}

// sheet is a table without lines around it: what is listed can be read by a person and cut by a program.
type sheet struct {
	columns []column
	rows    [][]string
}

func (s *sheet) add(cells ...string) { s.rows = append(s.rows, cells) }

// lines renders the sheet.
func (s *sheet) lines(p palette) []string {
	titles := make([]string, len(s.columns))
	for i, c := range s.columns {
		titles[i] = c.title
	}
	rendered := table.New().
		Border(lipgloss.Border{}).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderColumn(false).BorderHeader(false).BorderRow(false).
		Headers(titles...).Rows(s.rows...).
		StyleFunc(func(row, col int) lipgloss.Style {
			style := lipgloss.NewStyle()
			if row == table.HeaderRow {
				style = p.faint
			}
			if s.columns[col].numbers {
				style = style.Align(lipgloss.Right)
			}
			if col < len(s.columns)-1 {
				style = style.PaddingRight(2)
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

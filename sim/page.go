// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

// page is what the template is filled with.
type page struct {
	Title   string
	Facts   []string
	Events  []happening
	Columns []string
	Rows    []pageRow
	Charts  []*chart
	Notes   []string // on the charts
	// What the columns are of, besides that of any scenario.
	Tracked, Moves, Stock bool
	Data                  template.JS
}

// pageRow is one algorithm.
type pageRow struct {
	Name, Says string
	Cells      []pageCell
	Ours, Best bool
	Width      string // of the bar, in percent; empty for none
}

// pageCell is one number of an algorithm. The title is that of its column: on a narrow screen there are no columns.
type pageCell struct {
	Title, Text string
}

// none stands where there is no value.
const none = "–"

// WritePage writes the comparison as one HTML page that needs nothing else. The charts are those of algorithms whose first
// repeat has a history; without any there is no part for them.
func WritePage(w io.Writer, scenario Scenario, compared []Compared) error {
	filled, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	p, err := newPage(&scenario, compared)
	if err != nil {
		return err
	}
	if err := filled.Execute(w, p); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	return nil
}

func newPage(scenario *Scenario, compared []Compared) (*page, error) {
	p := &page{
		Title: scenario.Name, Facts: facts(scenario, compared), Events: happenings(scenario),
		Tracked: scenario.tracked(), Moves: scenario.Rebalance > 0, Stock: scenario.StockClients > 0,
	}
	most, best := 1.0, math.Inf(1)
	for i := range compared {
		if ratio := compared[i].MaxOverMean; ratio > 0 {
			most, best = max(most, ratio), min(best, ratio)
		}
	}
	for i := range compared {
		row := newRow(scenario, &compared[i], most)
		row.Best = compared[i].MaxOverMean == best
		p.Rows = append(p.Rows, row)
	}
	if len(p.Rows) > 0 {
		for _, c := range p.Rows[0].Cells {
			p.Columns = append(p.Columns, c.Title)
		}
	}
	p.Charts, p.Notes = newCharts(scenario, compared, p.Events)
	var data []any
	for _, c := range p.Charts {
		data = append(data, c.data)
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	p.Data = template.JS(encoded) //nolint:gosec // numbers only
	return p, nil
}

// facts say what was simulated, and how many times.
func facts(s *Scenario, compared []Compared) []string {
	all := []string{counted(s.Clients, "client"), counted(s.Servers, "server"), s.RTT.String() + " round trip"}
	if len(s.RTTs) > 0 {
		all[2] = "round trips " + listed(s.RTTs) + " in turn"
	}
	all = append(all, "jitter "+s.Jitter.String())
	if len(s.Capacities) > 0 {
		all = append(all, "capacities "+listed(s.Capacities)+" in turn")
	}
	if s.StockClients > 0 {
		all = append(all, percent(s.StockClients)+" stock clients")
	}
	if s.LoseReservations > 0 {
		all = append(all, percent(s.LoseReservations)+" of reservations lost")
	}
	rebalancing := "no rebalancing"
	if s.Rebalance > 0 {
		rebalancing = "rebalancing every " + s.Rebalance.String()
	}
	all = append(all, rebalancing, "up to "+s.Length.String()+" long")
	if len(compared) > 0 {
		all = append(all, counted(compared[0].Repeats, "repeat"), "seed "+strconv.FormatUint(compared[0].Seed, 10))
	}
	return all
}

func newRow(s *Scenario, c *Compared, most float64) pageRow {
	row := pageRow{
		Name: string(c.Algorithm), Says: c.Algorithm.about(), Ours: c.Algorithm == Evenkeel || c.Algorithm == EvenkeelStock,
		Cells: []pageCell{
			{"max / mean", ratio("%.3f", c.MaxOverMean)},
			{"±", fmt.Sprintf("%.3f", c.StandardError)},
			{"worst", ratio("%.2f", c.Worst)},
			{"requests a client", fmt.Sprintf("%.1f", c.RequestsPerClient)},
			{"time to decide", millis(c.DecideMean)},
			{"connected", grouped(int(math.Round(c.Connected)))},
		},
	}
	if c.MaxOverMean == 0 {
		row.Cells[1].Text = none
	} else {
		row.Width = fmt.Sprintf("%.1f", barWidth(c.MaxOverMean, most))
	}
	if s.tracked() {
		after, longest := none, none
		if c.Even > 0 {
			after, longest = c.EvenAfter.Round(time.Second).String(), c.EvenMost.Round(time.Second).String()
		}
		row.Cells = append(row.Cells, pageCell{"even", fmt.Sprintf("%d of %d", c.Even, c.Repeats)}, pageCell{"after", after}, pageCell{"longest", longest})
	}
	if s.Rebalance > 0 {
		row.Cells = append(row.Cells, pageCell{"moved", percent(c.Rebalanced)}, pageCell{"twice", grouped(c.RebalancedTwice)})
	}
	if s.StockClients > 0 {
		row.Cells = append(row.Cells, pageCell{"stock max / mean", ratio("%.3f", c.StockMaxOverMean)},
			pageCell{"stock load", ratio("%.3f", c.StockLoad)}, pageCell{"stock decide", millis(c.StockDecideMean)})
	}
	return row
}

// barWidth is the distance from even, on a scale on which ten times the distance is one step more.
func barWidth(ratio, most float64) float64 {
	step := func(x float64) float64 { return math.Log10(1 + 100*max(0, x-1)) }
	const least = 1.5
	if most <= 1 {
		return least
	}
	return least + (100-least)*step(ratio)/step(most)
}

// about says in a few words what the algorithm does.
func (a Algorithm) about() string {
	return map[Algorithm]string{
		Random:        "picks blindly",
		RoundRobin:    "takes turns from a random start",
		Classic:       "asks all servers, takes the minimum",
		TwoChoices:    "asks two servers, takes the minimum",
		EvenkeelStock: "this client with stock servers",
		Evenkeel:      "this client with its own servers",
	}[a]
}

// ratio writes a ratio to a mean, which is 0 where there is none.
func ratio(format string, x float64) string {
	if x == 0 {
		return none
	}
	return fmt.Sprintf(format, x)
}

func millis(d time.Duration) string { return d.Round(time.Millisecond).String() }

// percent writes a part of 1.
func percent(part float64) string {
	return strconv.FormatFloat(math.Round(1000*part)/10, 'f', -1, 64) + " %"
}

// counted writes how many there are of a thing.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return grouped(n) + " " + thing
}

// listed writes the values one behind the other.
func listed[T any](values []T) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = fmt.Sprint(value)
	}
	return strings.Join(texts, ", ")
}

// grouped writes a number with narrow blanks between thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

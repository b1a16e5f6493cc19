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

// The measures of a chart, in the units of its view box.
const (
	chartWidth, chartHeight = 640.0, 260.0
	marginLeft, marginRight = 44.0, 12.0
	marginTop, marginBottom = 12.0, 26.0
)

// page is what the template is filled with.
type page struct {
	Title string
	Facts []string
	Rows  []pageRow
	Data  template.JS
}

// pageRow is one algorithm.
type pageRow struct {
	Name, Says               string
	Ratio, Error, Worst      string
	Requests, Decide, Online string
	Ours, Best               bool
	Width                    string // of the bar, in percent
	Chart                    *chart
}

// chart has the lines of all servers of one simulation.
type chart struct {
	Lines     []line
	Even      string // the path of the mean
	Across    []tick // levels
	Along     []tick // points in time
	Left, Top float64
	Right     float64
	Bottom    float64
}

type line struct {
	Path, Colour string
}

type tick struct {
	At    float64
	Label string
}

// WritePage writes the comparison as one HTML page that needs nothing else. The charts are those of algorithms whose first
// repeat has a history.
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
		Title: scenario.Name,
		Facts: []string{
			grouped(scenario.Clients) + " clients", grouped(scenario.Servers) + " servers",
			scenario.RTT.String() + " round trip", scenario.Jitter.String() + " jitter",
		},
	}
	if len(scenario.RTTs) > 0 {
		p.Facts[2] = "round trips from " + scenario.RTTs[0].String()
	}
	most, best := 1.0, math.Inf(1)
	level := 1
	for i := range compared {
		most, best = max(most, compared[i].MaxOverMean), min(best, compared[i].MaxOverMean)
		if compared[i].Algorithm != Classic { // its peak would flatten the others
			level = max(level, compared[i].First.highest())
		}
	}
	var histories [][]Moment
	for i := range compared {
		row := newRow(&compared[i], most)
		row.Best = compared[i].MaxOverMean == best
		own := compared[i].First.highest()
		if history := compared[i].First.History; len(history) > 1 {
			row.Chart = newChart(history, max(level, own))
			histories = append(histories, history)
		}
		p.Rows = append(p.Rows, row)
	}
	data, err := json.Marshal(histories)
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	p.Data = template.JS(data) //nolint:gosec // numbers only
	return p, nil
}

func newRow(c *Compared, most float64) pageRow {
	// The distance from even, on a scale on which ten times the distance is one step more.
	step := func(x float64) float64 { return math.Log10(1 + 100*max(0, x-1)) }
	width := 1.5
	if most > 1 {
		width += 98.5 * step(c.MaxOverMean) / step(most)
	}
	return pageRow{
		Name: string(c.Algorithm), Says: c.Algorithm.about(), Ours: c.Algorithm == Evenkeel || c.Algorithm == EvenkeelStock,
		Ratio: fmt.Sprintf("%.3f", c.MaxOverMean), Error: fmt.Sprintf("%.3f", c.StandardError), Worst: fmt.Sprintf("%.2f", c.Worst),
		Requests: fmt.Sprintf("%.1f", c.RequestsPerClient), Decide: c.DecideMean.Round(time.Millisecond).String(),
		Online: grouped(int(math.Round(c.Connected))), Width: fmt.Sprintf("%.1f", width),
	}
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

// highest is the most connections that a server had at any time.
func (r *Result) highest() int {
	most := 0
	for _, moment := range r.History {
		for _, count := range moment.Counts {
			most = max(most, count)
		}
	}
	return most
}

func newChart(history []Moment, highest int) *chart {
	c := &chart{Left: marginLeft, Top: marginTop, Right: chartWidth - marginRight, Bottom: chartHeight - marginBottom}
	end := history[len(history)-1].At
	step, top := niceStep(float64(highest))
	x := func(at time.Duration) float64 { return c.Left + (c.Right-c.Left)*at.Seconds()/end.Seconds() }
	y := func(count float64) float64 { return c.Bottom - (c.Bottom-c.Top)*count/top }
	servers := len(history[0].Counts)
	for server := range servers {
		var path strings.Builder
		for i, moment := range history {
			point(&path, i, x(moment.At), y(float64(moment.Counts[server])))
		}
		// The golden angle puts neighbours far apart on the circle of colours.
		hue := math.Mod(200+137.508*float64(server), 360)
		c.Lines = append(c.Lines, line{Path: path.String(), Colour: fmt.Sprintf("hsl(%.0f 62%% 55%%)", hue)})
	}
	var even strings.Builder
	for i, moment := range history {
		sum := 0
		for _, count := range moment.Counts {
			sum += count
		}
		point(&even, i, x(moment.At), y(float64(sum)/float64(servers)))
	}
	c.Even = even.String()
	for level := 0.0; level <= top+step/2; level += step {
		c.Across = append(c.Across, tick{At: y(level), Label: strconv.FormatFloat(level, 'f', -1, 64)})
	}
	seconds, last := niceStep(end.Seconds())
	for at := 0.0; at <= min(last, end.Seconds()); at += seconds {
		c.Along = append(c.Along, tick{At: c.Left + (c.Right-c.Left)*at/end.Seconds(), Label: strconv.FormatFloat(at, 'f', -1, 64) + " s"})
	}
	return c
}

// point adds a point to a path of SVG.
func point(path *strings.Builder, i int, x, y float64) {
	verb := "L"
	if i == 0 {
		verb = "M"
	}
	fmt.Fprintf(path, "%s%.1f %.1f", verb, x, y)
}

// niceStep returns the distance of some four ticks that people like to read, and the last of them, not below the most.
func niceStep(most float64) (step, last float64) {
	const ticks = 4
	raw := max(most, 1) / ticks
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	step = 10 * power
	for _, times := range []float64{1, 2, 2.5, 5} {
		if times*power >= raw {
			step = times * power
			break
		}
	}
	return step, math.Ceil(most/step) * step
}

// grouped writes a number with narrow blanks between thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

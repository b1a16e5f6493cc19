// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A chart is drawn in a box of chartSize by chartSize that is stretched to the place that it has on the screen. Its texts
// are no part of the drawing, so that they keep their size.
const chartSize = 1000.0

const (
	// flattened is how many times higher than the lowest chart the scale may be that all of them share.
	flattened = 3
	// manyShares is how many capacities there may be for each to have its own share drawn.
	manyShares = 4
	// labelRoom is the part of the width that the label of an event needs.
	labelRoom = .18
)

// chart has the lines of all servers of one simulation.
type chart struct {
	Name   string
	Lines  []line
	Shares []string // the paths of what a server would have if all were equally full
	Across []tick   // levels
	Along  []tick   // points in time
	Marks  []mark   // events
	Over   string   // says what is beyond the scale; empty where nothing is
	data   chartData
}

// chartData is what the script of the page reads the numbers of a point in time from.
type chartData struct {
	At     []float64   `json:"at"` // seconds
	Counts [][]int     `json:"counts"`
	Shares [][]float64 `json:"shares"` // one for each different capacity
}

type line struct {
	Path, Colour string
}

// tick is a place on an axis, in percent of its length.
type tick struct {
	At    float64
	Label string
}

// Place is the place of an upright line in the drawing.
func (m mark) Place() float64 { return m.At / 100 * chartSize }

// Place is the place of a line across the drawing.
func (t tick) Place() float64 { return (1 - t.At/100) * chartSize }

// mark is an event in a chart. Only some have room for a label.
type mark struct {
	tick
	Full string // what happened
	Left bool   // the label is on the left side
}

// scale is what all charts of a page share, so that they can be compared.
type scale struct {
	end       time.Duration
	step, top float64
}

// newCharts draws the histories that there are, and says how they are to be read.
func newCharts(s *Scenario, compared []Compared, events []happening) (charts []*chart, notes []string) {
	var peaks []int
	var common scale
	for i := range compared {
		if history := compared[i].First.History; len(history) > 1 {
			peaks = append(peaks, highest(history))
			common.end = max(common.end, history[len(history)-1].At)
		}
	}
	if len(peaks) == 0 || common.end <= 0 {
		return nil, nil
	}
	common.step, common.top = levels(sharedTop(peaks))
	capacities := s.differentCapacities()
	cut := false
	for i := range compared {
		if history := compared[i].First.History; len(history) > 1 {
			c := common.draw(s, history, capacities)
			c.Name, c.Marks = string(compared[i].Algorithm), common.marks(events)
			if peak := highest(history); float64(peak) > common.top {
				c.Over, cut = "up to "+grouped(peak)+", beyond the scale", true
			}
			charts = append(charts, c)
		}
	}
	return charts, chartNotes(capacities, cut, events)
}

func chartNotes(capacities []int, cut bool, events []happening) []string {
	notes := []string{"The first repeat, one line for each server; the dashed one is the mean of the servers that serve."}
	switch {
	case len(capacities) > manyShares:
		notes[0] = "The first repeat, one line for each server. These have too many different capacities to draw what each would have if all were equally full."
	case len(capacities) > 1:
		notes[0] = "The first repeat, one line for each server; the dashed ones are what a server of each capacity would have if those that serve were equally full."
	}
	scales := "All charts have the same scales."
	if cut {
		scales = "All charts have the same scales. What would flatten the others is cut off at the top and marked."
	}
	notes = append(notes, scales)
	if len(events) > 0 {
		notes = append(notes, "The dotted lines upright are the events.")
	}
	return notes
}

// sharedTop is the highest peak that flattens no chart.
func sharedTop(peaks []int) int {
	lowest := max(slices.Min(peaks), 1)
	top := lowest
	for _, peak := range peaks {
		if peak <= flattened*lowest {
			top = max(top, peak)
		}
	}
	return top
}

// highest is the most connections that a server has in a history.
func highest(history []Moment) int {
	most := 0
	for _, moment := range history {
		most = max(most, slices.Max(moment.Counts))
	}
	return most
}

// differentCapacities are those of the servers, each once, in order; 1 where there are none.
func (s *Scenario) differentCapacities() []int {
	var all []int
	for server := range s.Servers {
		all = append(all, max(int(s.capacity(server)), 1))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (c *scale) x(at time.Duration) float64 { return chartSize * at.Seconds() / c.end.Seconds() }

func (c *scale) y(count float64) float64 { return chartSize * (1 - count/c.top) }

func (c *scale) draw(s *Scenario, history []Moment, capacities []int) *chart {
	drawn := &chart{}
	for server := range s.Servers {
		// The golden angle puts neighbours far apart on the circle of colours.
		hue := math.Mod(200+137.508*float64(server), 360)
		path := c.path(history, func(m Moment) float64 { return float64(m.Counts[server]) })
		drawn.Lines = append(drawn.Lines, line{Path: path, Colour: fmt.Sprintf("hsl(%.0f 62%% 55%%)", hue)})
	}
	if len(capacities) > manyShares {
		capacities = nil
	}
	for _, capacity := range capacities {
		drawn.Shares = append(drawn.Shares, c.path(history, func(m Moment) float64 { return m.Mean * float64(capacity) }))
	}
	for _, moment := range history {
		drawn.data.At = append(drawn.data.At, moment.At.Seconds())
		drawn.data.Counts = append(drawn.data.Counts, moment.Counts)
		shares := make([]float64, len(capacities))
		for i, capacity := range capacities {
			shares[i] = math.Round(10*moment.Mean*float64(capacity)) / 10
		}
		drawn.data.Shares = append(drawn.data.Shares, shares)
	}
	for level := 0.0; level <= c.top+c.step/2; level += c.step {
		drawn.Across = append(drawn.Across, tick{At: 100 * level / c.top, Label: grouped(int(level))})
	}
	seconds := niceStep(c.end.Seconds())
	for at := 0.0; at <= c.end.Seconds(); at += seconds {
		drawn.Along = append(drawn.Along, tick{At: 100 * at / c.end.Seconds(), Label: strconv.FormatFloat(at, 'g', 6, 64) + " s"})
	}
	return drawn
}

// path is a line of SVG.
func (c *scale) path(history []Moment, of func(Moment) float64) string {
	var path strings.Builder
	verb := "M"
	for _, moment := range history {
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, c.x(moment.At), c.y(of(moment)))
		verb = "L"
	}
	return path.String()
}

// marks are where the events lie. A label that would run into the one before it is left out.
func (c *scale) marks(events []happening) []mark {
	var marks []mark
	room := 0.0 // from where on there is room
	for _, e := range events {
		if e.At > c.end {
			continue
		}
		at := e.At.Seconds() / c.end.Seconds()
		m := mark{tick: tick{At: 100 * at}, Full: e.Says, Left: at > 1-labelRoom}
		if m.Left {
			at -= labelRoom
		}
		if at >= room {
			m.Label, room = e.Does, at+labelRoom
			if m.Left {
				room = math.Inf(1)
			}
		}
		marks = append(marks, m)
	}
	return marks
}

// levels returns the distance of the lines across a chart, which are whole numbers, and the last of them, not below the most.
func levels(most int) (step, top float64) {
	step = max(niceStep(float64(most)), 1)
	if step != math.Trunc(step) {
		step = math.Ceil(step)
	}
	return step, max(math.Ceil(float64(most)/step), 1) * step
}

// niceStep returns the distance of some four ticks that people like to read.
func niceStep(most float64) float64 {
	const ticks = 4
	raw := most / ticks
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, times := range []float64{1, 2, 2.5, 5} {
		if times*power >= raw {
			return times * power
		}
	}
	return 10 * power
}

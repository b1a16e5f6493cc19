// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim_test

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/sim"
)

func TestAHistoryHasTheMomentsThatWereAskedFor(t *testing.T) {
	t.Parallel()
	scenario := preset(t, "death", 90, 3)
	for _, points := range []int{0, 1, 2, 20} {
		result, err := sim.RunWithHistory(t.Context(), scenario, sim.Evenkeel, 1, points)
		if err != nil {
			t.Fatal(err)
		}
		history := result.History
		if len(history) != points {
			t.Fatalf("%d moments, want %d", len(history), points)
		}
		if points == 0 {
			continue
		}
		if last := history[points-1]; last.At != scenario.Length || !slices.Equal(last.Counts, result.Counts) {
			t.Errorf("of %d moments the last is %+v, want that of the end, %v", points, last, result.Counts)
		}
		if points > 1 && history[0].At != 0 {
			t.Errorf("of %d moments the first is at %v, want the beginning", points, history[0].At)
		}
		if plain := run(t, scenario, sim.Evenkeel, 1); !slices.Equal(plain.Counts, result.Counts) || plain.Requests != result.Requests {
			t.Errorf("with %d moments it came out as %+v, without as %+v", points, result, plain)
		}
	}
}

func TestTheMeanOfAHistoryIsOfTheServersThatServe(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]float64{
		"death": 120. / 3, "scale-up": 120. / 4, "scale-down": 120. / 3, "back": 120. / 4, "frozen-server": 120. / 3, "hollow-server": 120. / 3,
		"capacities": 120. / (1 + 2 + 1 + 2),
	} {
		result, err := sim.RunWithHistory(t.Context(), preset(t, name, 120, 4), sim.Evenkeel, 1, 50)
		if err != nil {
			t.Fatal(err)
		}
		last := result.History[49]
		if math.Abs(last.Mean-want) > 1e-9 {
			t.Errorf("%s: a mean of %v at the end, want %v", name, last.Mean, want)
		}
		if name != "capacities" && math.Abs(float64(slices.Max(last.Counts))/last.Mean-result.MaxOverMean) > 1e-9 {
			t.Errorf("%s: %v with a mean of %v, and max/mean %v", name, last.Counts, last.Mean, result.MaxOverMean)
		}
	}
}

func TestHistoriesThatAreComparedEndALittleAfterTheLastChange(t *testing.T) {
	t.Parallel()
	for name, least := range map[string]time.Duration{"cold-start": 500 * time.Millisecond, "death": 10 * time.Second} {
		compared, err := sim.Compare(t.Context(), sim.CompareConfig{Scenario: preset(t, name, 100, 4), Points: 100})
		if err != nil {
			t.Fatal(err)
		}
		end, changed := compared[0].First.History[99].At, time.Duration(0)
		for i := range compared {
			history := compared[i].First.History
			if at := history[99].At; at != end {
				t.Errorf("%s, %s: the history ends at %v, another at %v", name, compared[i].Algorithm, at, end)
			}
			for m := range history[1:] {
				if !slices.Equal(history[m].Counts, history[m+1].Counts) {
					changed = max(changed, history[m+1].At)
				}
			}
		}
		if changed < least || end < changed || end > changed*6/5 {
			t.Errorf("%s: the histories end at %v, the last change is at %v, want a little more than that, and %v at least", name, end, changed, least)
		}
	}
}

// pageOf is the page of a comparison, and the numbers in its script.
func pageOf(t *testing.T, scenario sim.Scenario, compared []sim.Compared) (text string, charts []drawnChart) {
	t.Helper()
	var page strings.Builder
	if err := sim.WritePage(&page, scenario, compared); err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`const charts = (.*);`).FindStringSubmatch(page.String()); found != nil {
		if err := json.Unmarshal([]byte(found[1]), &charts); err != nil {
			t.Fatal(err)
		}
	}
	return page.String(), charts
}

// drawnChart is what the script of a page knows of a chart.
type drawnChart struct {
	At     []float64   `json:"at"`
	Counts [][]int     `json:"counts"`
	Shares [][]float64 `json:"shares"`
}

func TestThePageAgreesWithItsTable(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]float64{"death": {30}, "scale-up": {22.5}, "capacities": {15, 30}} {
		scenario := preset(t, name, 90, 4)
		compared, err := sim.Compare(t.Context(), sim.CompareConfig{Scenario: scenario, Points: 20})
		if err != nil {
			t.Fatal(err)
		}
		page, charts := pageOf(t, scenario, compared)
		if len(charts) != len(compared) {
			t.Fatalf("%s: %d charts, want %d", name, len(charts), len(compared))
		}
		for i, c := range charts {
			if got := c.Shares[len(c.Shares)-1]; !slices.Equal(got, want) {
				t.Errorf("%s, %s: dashed lines at %v in the end, want %v", name, compared[i].Algorithm, got, want)
			}
		}
		if got := strings.Count(page, `class="even"`); got != len(want)*len(compared) {
			t.Errorf("%s: %d dashed lines, want %d", name, got, len(want)*len(compared))
		}
		if !strings.Contains(page, "over the mean of the servers that serve") || strings.Contains(page, "those that are down included") {
			t.Errorf("%s: the page does not say of which servers the mean is", name)
		}
	}
}

func TestThePageSaysWhatWasRun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rebalance time.Duration
		want      []string
		marks     int
	}{
		"scale-up": {30 * time.Second, []string{
			"rebalancing every 30s", "90 clients", "20ms round trip", "jitter 250ms", "up to 3m30s long", "2 repeats", "seed 7",
			"1m30s: servers 4–5 start", `data-title="even"`, `data-title="after"`, `data-title="longest"`, `data-title="moved"`, `data-title="twice"`,
		}, 1},
		"rolling-restart": {0, []string{"no rebalancing", "10s: server 1 drains", "48s: server 5 starts", `data-title="even"`}, 10},
		"mixed-fleet": {0, []string{
			"50 % stock clients", `data-title="stock max / mean"`, `data-title="stock load"`, `data-title="stock decide"`,
		}, 0},
		"capacities":        {0, []string{"capacities 1, 2 in turn"}, 0},
		"round-trips":       {0, []string{"round trips 2ms, 20ms, 40ms in turn"}, 0},
		"lost-reservations": {0, []string{"30 % of reservations lost"}, 0},
	} {
		scenario, err := sim.Preset(name, sim.Size{Clients: 90, Servers: 5, RTT: 20 * time.Millisecond, Rebalance: tt.rebalance})
		if err != nil {
			t.Fatal(err)
		}
		compared, err := sim.Compare(t.Context(), sim.CompareConfig{Scenario: scenario, Points: 20, Repeats: 2, Seed: 7, Algorithms: []sim.Algorithm{sim.Evenkeel}})
		if err != nil {
			t.Fatal(err)
		}
		page, _ := pageOf(t, scenario, compared)
		for _, want := range tt.want {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page does not have %q", name, want)
			}
		}
		if got := strings.Count(page, `class="event"`); got != tt.marks {
			t.Errorf("%s: %d events are marked, want %d", name, got, tt.marks)
		}
	}
}

func TestAPageWithoutHistoriesHasNoPartForThem(t *testing.T) {
	t.Parallel()
	scenario := preset(t, "cold-start", 1, 1)
	compared, err := sim.Compare(t.Context(), sim.CompareConfig{Scenario: scenario})
	if err != nil {
		t.Fatal(err)
	}
	page, _ := pageOf(t, scenario, compared)
	for _, part := range []string{"over time", "<script", "One line", "All charts"} {
		if strings.Contains(page, part) {
			t.Errorf("the page has %q in it", part)
		}
	}
	for _, want := range []string{"1 client<", "1 server<", "1 repeat<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
}

// historyUpTo is a history of two servers, the first of which has so many clients at most.
func historyUpTo(peak int) sim.Result {
	return sim.Result{History: []sim.Moment{{Counts: []int{0, 0}}, {At: time.Second, Counts: []int{peak, 1}, Mean: float64(peak+1) / 2}}}
}

func TestChartsShareOneScaleAndMarkWhatIsBeyondIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		peaks  []int
		top    string
		beyond []string
	}{
		"alike":             {[]int{100, 120}, "150", nil},
		"twice as high":     {[]int{100, 240}, "300", nil},
		"one would flatten": {[]int{100, 1758, 120}, "150", []string{"up to 1\u202f758, beyond the scale"}},
		"few clients":       {[]int{1, 2}, "2", nil},
		"nobody":            {[]int{0, 0}, "1", nil},
	} {
		var compared []sim.Compared
		for _, peak := range tt.peaks {
			compared = append(compared, sim.Compared{Algorithm: sim.Classic, First: historyUpTo(peak)})
		}
		page, _ := pageOf(t, preset(t, "cold-start", 100, 2), compared)
		tops := regexp.MustCompile(`<span class="level" style="bottom:100%">([^<]*)<`).FindAllStringSubmatch(page, -1)
		if len(tops) != len(tt.peaks) {
			t.Fatalf("%s: %d scales, want %d", name, len(tops), len(tt.peaks))
		}
		for _, top := range tops {
			if top[1] != tt.top {
				t.Errorf("%s: a scale up to %s, want %s", name, top[1], tt.top)
			}
		}
		if got := strings.Count(page, "beyond the scale"); got != len(tt.beyond) {
			t.Errorf("%s: %d marks, want %d", name, got, len(tt.beyond))
		}
		for _, want := range tt.beyond {
			if !strings.Contains(page, want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
	}
}

func TestWhereNobodyIsConnectedThereIsNoRatio(t *testing.T) {
	t.Parallel()
	scenario := preset(t, "death", 20, 1)
	compared, err := sim.Compare(t.Context(), sim.CompareConfig{Scenario: scenario, Repeats: 2, Algorithms: []sim.Algorithm{sim.Evenkeel}})
	if err != nil {
		t.Fatal(err)
	}
	if c := compared[0]; c.MaxOverMean != 0 || c.Connected != 0 {
		t.Fatalf("max/mean %v with %v clients, want none", c.MaxOverMean, c.Connected)
	}
	page, _ := pageOf(t, scenario, compared)
	if !strings.Contains(page, `data-title="max / mean">–<`) || strings.Contains(page, "ours best") || strings.Contains(page, `class="bar"`) {
		t.Error("the page shows a ratio")
	}
}

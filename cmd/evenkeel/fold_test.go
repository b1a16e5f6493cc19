// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/sim"
)

// titled is a sheet of one row with these titles.
func titled(titles ...string) *sheet {
	s := &sheet{}
	for _, title := range titles {
		s.columns = append(s.columns, column{title: title})
	}
	s.add(plain(titles...)...)
	return s
}

func titlesOf(sheets []*sheet) [][]string {
	var all [][]string
	for _, s := range sheets {
		var titles []string
		for _, c := range s.columns {
			titles = append(titles, c.title)
		}
		all = append(all, titles)
	}
	return all
}

func TestASheetIsFolded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		titles []string
		width  int
		breaks []string
		want   [][]string
	}{
		"it fits":           {[]string{"key", "one", "two"}, 20, nil, [][]string{{"key", "one", "two"}}},
		"no terminal":       {[]string{"key", "one", "two", "and many others more"}, 0, nil, [][]string{{"key", "one", "two", "and many others more"}}},
		"one too many":      {[]string{"key", "first", "second", "third"}, 20, nil, [][]string{{"key", "first", "second"}, {"key", "third"}}},
		"groups stay whole": {[]string{"key", "one", "two", "threes"}, 20, []string{"two"}, [][]string{{"key", "one"}, {"key", "two", "threes"}}},
		"a group is too wide": {
			[]string{"key", "one", "second", "thirdly", "fourth"},
			20,
			[]string{"second"},
			[][]string{{"key", "one"}, {"key", "second", "thirdly"}, {"key", "fourth"}},
		},
		"a column is too wide": {[]string{"key", "a title of twenty col", "b"}, 20, nil, [][]string{{"key", "a title of twenty col"}, {"key", "b"}}},
	} {
		if diff := cmp.Diff(tt.want, titlesOf(titled(tt.titles...).folds(tt.width, 1, tt.breaks...))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestFoldsKeepAllColumnsAndTheWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		titles := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,8}`), 2, 15).Draw(t, "titles")
		width := rapid.IntRange(narrowest, 60).Draw(t, "width")
		got := []string{titles[0]}
		for _, part := range titled(titles...).folds(width, 1, titles[len(titles)/2]) {
			got = append(got, titlesOf([]*sheet{part})[0][1:]...)
			if w := part.width(); w > width {
				t.Fatalf("a sheet of %d columns, want %d at most", w, width)
			}
		}
		if !slices.Equal(got, titles) {
			t.Fatalf("got %q, want %q", got, titles)
		}
	})
}

// onTerminal calls a function with a console that writes to a terminal of 80 columns, and returns what it wrote.
func onTerminal(t *testing.T, show func(*console)) string {
	t.Helper()
	var out bytes.Buffer
	c := newConsole(nil, nil, &out, io.Discard)
	c.outScreen = aTerminal(t)
	show(c)
	for line := range strings.Lines(out.String()) {
		if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > 80 {
			t.Errorf("a line of %d columns: %s", w, line)
		}
	}
	return out.String()
}

func TestSimulationsFitATerminal(t *testing.T) {
	t.Parallel()
	const hour = time.Hour + 59*time.Minute + 59*time.Second
	compared := []sim.Compared{{
		Algorithm: sim.EvenkeelStock, MaxOverMean: 123.456, StandardError: 12.345, Worst: 234.567, RequestsPerClient: 1234.5,
		DecideMean: 1234 * time.Millisecond, Connected: 100_000, Even: 10_000, EvenAfter: hour, EvenMost: hour, Rebalanced: 1, RebalancedTwice: 100_000,
		StockMaxOverMean: 123.456, StockLoad: 12.345, StockDecideMean: 1234 * time.Millisecond,
	}}
	for _, kind := range sim.Presets() {
		for _, rebalance := range []time.Duration{0, time.Hour} {
			scenario, err := sim.Preset(kind.Name, sim.Size{Clients: 100_000, Servers: 10, Rebalance: rebalance})
			if err != nil {
				t.Fatal(err)
			}
			scenario.StockClients = .5
			text := onTerminal(t, func(c *console) { (&simulation{console: c, repeats: 10_000}).showScenario(&scenario, compared) })
			want := []string{"max/mean", "connected", "stock max/mean", "stock load"}
			if tracked(&scenario) {
				want = append(want, "longest")
			}
			if rebalance > 0 {
				want = append(want, "twice")
			}
			for _, title := range want {
				if !strings.Contains(text, title) {
					t.Errorf("%s: no %s in\n%s", kind.Name, title, text)
				}
			}
		}
	}
	row := sim.Measured{Bar: sim.Bars()[6], Algorithm: sim.EvenkeelStock, MaxOverMean: 16.7, StandardError: .1, RequestsPerClient: 101, DecideMean: time.Second, Met: true}
	text := onTerminal(t, func(c *console) { (&simulation{console: c}).showSuite([]sim.Measured{row}) })
	if !strings.Contains(text, "met") || !strings.Contains(text, "decide") {
		t.Errorf("columns are missing in\n%s", text)
	}
}

func TestWhereNobodyIsConnectedADashStands(t *testing.T) {
	t.Parallel()
	args := []string{"simulate", "--scenario", "death", "--servers", "1", "--clients", "1", "--repeats", "1", "--algorithm", "evenkeel"}
	text := call(t, nil, "", args...)
	if text.status != exitDone || !strings.Contains(text.stdout, "death: 1 client, 1 server, round trip 50ms, 1 repeat\n") ||
		!strings.Contains(text.stdout, "evenkeel          –") {
		t.Errorf("status %d, got\n%s", text.status, text.stdout)
	}
	object := call(t, nil, "", append(args, "--json")...)
	if strings.Contains(object.stdout, "max_over_mean") || strings.Contains(object.stdout, "worst") || !strings.Contains(object.stdout, `"connected":0`) {
		t.Errorf("got %s, want no ratio", object.stdout)
	}
}

func TestScenariosSayHowManyServersTheyNeed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"scale-up", "scale-down"} {
		got := call(t, nil, "", "simulate", "--scenario", name, "--servers", "2", "--clients", "10")
		if got.status != exitUsage || !strings.Contains(got.stderr, name+" needs 3 servers at least, got 2") || strings.Contains(got.stderr, "length") {
			t.Errorf("%s: status %d: %s", name, got.status, got.stderr)
		}
	}
}

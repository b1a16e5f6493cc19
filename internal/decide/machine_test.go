// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/internal/decide"
)

func TestMachineAsksAsManyAsItNeeds(t *testing.T) {
	t.Parallel()
	many := func(n, each int) []int { return slices.Repeat([]int{each}, n) }
	crowded := 5000.0 // a second, at each server
	tests := []struct {
		name     string
		cluster  cluster
		config   decide.Config
		asks     []int // candidates of each question
		reserves int
	}{
		{"one candidate is the answer", cluster{counts: many(1, 5)}, decide.Config{Reserve: true, MaxJitter: jitter}, nil, 0},
		{"ours: all of a few, once", cluster{counts: many(4, 5), ours: true}, decide.Config{Reserve: true}, []int{4}, 1},
		{"ours: the rest when the sample is alone", cluster{counts: many(30, 5), ours: true}, decide.Config{Reserve: true}, []int{8, 22}, 1},
		{"ours: nothing can be lower than nobody", cluster{counts: many(30, 0), ours: true}, decide.Config{Reserve: true}, []int{8}, 1},
		{
			"ours: unless weights differ",
			cluster{counts: many(9, 0), ours: true, weight: []uint16{1, 2, 1, 2, 1, 2, 1, 2, 1}},
			decide.Config{Reserve: true},
			[]int{8, 1},
			1,
		},
		{
			"ours: the sample is enough in a crowd",
			cluster{counts: many(30, 5), ours: true, rate: crowded, rtt: 50 * time.Millisecond},
			decide.Config{Reserve: true},
			[]int{8},
			1,
		},
		{
			"ours: a pick in a crowd is corrected",
			cluster{counts: many(30, 5), ours: true, rate: crowded, rtt: 50 * time.Millisecond},
			decide.Config{Reserve: true, Release: true, MaxJitter: jitter},
			[]int{8, 8},
			1,
		},
		{"stock: twice, and the rest", cluster{counts: many(30, 5)}, decide.Config{Reserve: true, MaxJitter: jitter}, []int{8, 8, 22}, 1},
		{"stock: once without waits", cluster{counts: many(4, 5)}, decide.Config{Reserve: true}, []int{4}, 1},
		{"classic: all, once", cluster{counts: many(30, 5)}, decide.Config{Reserve: true, Classic: true, MaxJitter: jitter}, []int{30}, 1},
		{"who is not counted asks all, and reserves nowhere", cluster{counts: many(30, 5), ours: true}, decide.Config{MaxJitter: jitter}, []int{30}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			action := tt.cluster.decide(t, decide.New(seeded(1)), tt.config)
			var asks []int
			for _, some := range tt.cluster.asked {
				asks = append(asks, len(some))
			}
			if !slices.Equal(asks, tt.asks) || len(tt.cluster.reserved) != tt.reserves {
				t.Errorf("asked %v and reserved %d times, want %v and %d", asks, len(tt.cluster.reserved), tt.asks, tt.reserves)
			}
			if n := len(tt.cluster.reserved); n > 0 && tt.cluster.reserved[n-1].Index != action.Index {
				t.Errorf("picked %d and reserved at %d", action.Index, tt.cluster.reserved[n-1].Index)
			}
		})
	}
}

func TestMachineWaits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config  decide.Config
		ours    bool
		longest []time.Duration
	}{
		"ours":        {decide.Config{Reserve: true, MaxJitter: jitter}, true, []time.Duration{jitter}},
		"stock":       {decide.Config{Reserve: true, MaxJitter: jitter}, false, []time.Duration{jitter, 70*time.Millisecond + 4*20*time.Millisecond}},
		"classic":     {decide.Config{Reserve: true, MaxJitter: jitter, Classic: true}, false, []time.Duration{jitter}},
		"never":       {decide.Config{Reserve: true}, false, nil},
		"not counted": {decide.Config{MaxJitter: jitter}, false, []time.Duration{jitter}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := decide.New(seeded(2))
			longest := make([]time.Duration, len(tt.longest))
			for range 500 {
				c := cluster{counts: []int{1, 2, 3}, ours: tt.ours, rtt: 20 * time.Millisecond}
				c.decide(t, m, tt.config)
				if len(c.waits) != len(longest) {
					t.Fatalf("waited %v, want %d waits", c.waits, len(longest))
				}
				for i, wait := range c.waits {
					longest[i] = max(longest[i], wait)
				}
			}
			for i, want := range tt.longest {
				if longest[i] > want || longest[i] < want*9/10 {
					t.Errorf("wait %d took up to %v, want up to %v", i, longest[i], want)
				}
			}
		})
	}
}

// With W of 1 or less the pick is the classic one: the minimum of all, whatever the sample.
func TestMachineAlonePicksAMinimum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "candidates")
		c := cluster{
			counts: rapid.SliceOfN(rapid.IntRange(0, 30), n, n).Draw(t, "counts"),
			weight: rapid.OneOf(rapid.Just(make([]uint16, n)), rapid.SliceOfN(rapid.Uint16Range(0, 9), n, n)).Draw(t, "weights"),
			ours:   rapid.Bool().Draw(t, "ours"), rtt: time.Millisecond,
		}
		before := slices.Clone(c.counts)
		gone := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "unreachable")
		c.answer = func(index int, a *decide.Answer) {
			if gone[index] {
				*a = decide.Answer{}
			}
		}
		config := decide.Config{Reserve: true, Release: true, Classic: rapid.Bool().Draw(t, "classic")}
		if rapid.Bool().Draw(t, "waits") {
			config.MaxJitter = jitter
		}
		got := c.decide(t, decide.New(seeded(rapid.Uint64().Draw(t, "seed"))), config).Index
		load := func(i int) float64 {
			if gone[i] {
				return math.Inf(1)
			}
			return float64(before[i]+1) / max(1, 10*float64(c.weight[i]))
		}
		for i := range n {
			if load(i) < load(got)-1e-9 {
				t.Fatalf("picked %d with load %v, %d has %v", got, load(got), i, load(i))
			}
		}
	})
}

// Whatever servers say, a decision ends soon, with a candidate, and one that answers where there is one.
func TestMachineEndsWhateverServersSay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "candidates")
		number := rapid.OneOf(rapid.IntRange(-3, 40), rapid.SampledFrom([]int{math.MinInt, math.MaxInt, math.MaxInt32}))
		rate := rapid.OneOf(rapid.Float64Range(-1, 1e5), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1e308, 1e308}))
		gone := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "unreachable")
		c := cluster{counts: make([]int, n), ours: rapid.Bool().Draw(t, "ours"), rtt: time.Duration(rapid.IntRange(-1, 1e9).Draw(t, "rtt"))}
		c.answer = func(index int, a *decide.Answer) {
			a.Connections, a.Rate, a.Capacity = number.Draw(t, "count"), rate.Draw(t, "rate"), max(0, number.Draw(t, "capacity"))
			a.At += time.Duration(rapid.IntRange(-1e10, 1e10).Draw(t, "clock"))
			if gone[index] {
				*a = decide.Answer{}
			} else if a.Connections < 0 {
				a.Connections = 0
			}
		}
		c.reply = func(_ int, r *decide.Reply) {
			r.Count = number.Draw(t, "told")
			r.Refused, r.Granted = rapid.Bool().Draw(t, "refused"), rapid.Bool().Draw(t, "granted")
		}
		config := decide.Config{Reserve: true, Release: rapid.Bool().Draw(t, "release")}
		if rapid.Bool().Draw(t, "waits") {
			config.MaxJitter = jitter
		}
		got := c.decide(t, decide.New(seeded(rapid.Uint64().Draw(t, "seed"))), config).Index
		if got < 0 || got >= n {
			t.Fatalf("picked %d of %d", got, n)
		}
		if n > 1 && gone[got] && slices.Contains(gone, false) {
			t.Fatalf("picked %d, which is unreachable, of %v", got, gone)
		}
		for _, wait := range c.waits {
			if wait < 0 || wait > 2*time.Second {
				t.Fatalf("a wait of %v", wait)
			}
		}
	})
}

func TestMachineAvoidsWhoIsDraining(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		draining, silent []int
		want             []int
	}{
		"a draining one with the fewest": {draining: []int{0}, want: []int{1}},
		"all drain":                      {draining: []int{0, 1, 2}, want: []int{0, 1, 2}},
		"rather one that is silent":      {draining: []int{0, 1}, silent: []int{2}, want: []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, picked := decide.New(seeded(5)), map[int]bool{}
			for range 100 {
				c := cluster{counts: []int{0, 1, 2}, ours: true}
				c.answer = func(index int, a *decide.Answer) {
					a.Draining = slices.Contains(tt.draining, index)
					a.Known = !slices.Contains(tt.silent, index)
				}
				picked[c.decide(t, m, decide.Config{Reserve: true}).Index] = true
			}
			for i := range 3 {
				if picked[i] != slices.Contains(tt.want, i) {
					t.Errorf("%d was picked: %v, want picks of %v", i, picked[i], tt.want)
				}
			}
		})
	}
}

func TestMachineHeedsWhatEachServerSaysOfItsCapacity(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		counts, said []int
		want         int
	}{
		"all say one":          {[]int{1, 3}, []int{1, 4}, 1}, // 4/4 is less than 2/1
		"one says none":        {[]int{1, 3}, []int{0, 4}, 1},
		"the other says none":  {[]int{1, 3}, []int{1, 0}, 0}, // 2 is less than 4
		"one lies about it":    {[]int{1, 32}, []int{1, 1 << 40}, 0},
		"one lies, with room":  {[]int{1, 30}, []int{1, 1 << 40}, 1}, // 31/16 is less than 2/1
		"nobody says anything": {[]int{1, 3}, []int{0, 0}, 0},
	} {
		c := cluster{counts: tt.counts, ours: true}
		c.answer = func(index int, a *decide.Answer) { a.Capacity = tt.said[index] }
		if got := c.decide(t, decide.New(seeded(1)), decide.Config{Reserve: true}).Index; got != tt.want {
			t.Errorf("%s: picked %d, want %d", name, got, tt.want)
		}
	}
}

// A server that says it is empty gets no more than twice its part of a large crowd, and all of a small one.
func TestMachineSendsNoLargeCrowdToOneServer(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]float64{100: 2. / 8, 20: 2. / 8, 10: 1} { // W is 8 × rate × 100 ms
		picked := 0
		for seed := range uint64(2000) {
			c := cluster{counts: []int{0, 200, 200, 200, 200, 200, 200, 200}, ours: true, rate: rate, rtt: 100 * time.Millisecond}
			if c.decide(t, decide.New(seeded(seed)), decide.Config{Reserve: true}).Index == 0 {
				picked++
			}
		}
		if got := float64(picked) / 2000; math.Abs(got-want) > .03 {
			t.Errorf("%v a second to each: a part of %.3f comes to it, want %.3f", rate, got, want)
		}
	}
}

func TestMachineLearnsFromARefusal(t *testing.T) {
	t.Parallel()
	c := cluster{counts: []int{3, 4}, ours: true}
	first := true
	c.grow = func() { // another one comes in between
		if first {
			c.counts[0]++
			first = false
		}
	}
	got := c.decide(t, decide.New(seeded(1)), decide.Config{Reserve: true})
	if len(c.reserved) != 2 || c.reserved[0].Index != 0 || c.reserved[0].Bound != 4 {
		t.Fatalf("reserved %+v, want first at 0 below 4, and then again", c.reserved)
	}
	if c.counts[got.Index] != 5 {
		t.Errorf("ended at %d with counts %v", got.Index, c.counts)
	}
}

func TestMachineGivesUpOnBoundsInTheEnd(t *testing.T) {
	t.Parallel()
	c := cluster{counts: []int{3, 3}, ours: true}
	c.grow = func() { c.counts[0], c.counts[1] = c.counts[0]+50, c.counts[1]+50 }
	c.decide(t, decide.New(seeded(1)), decide.Config{Reserve: true})
	if n := len(c.reserved); n != 4 || c.reserved[n-1].Bound != decide.None {
		t.Errorf("reserved %+v, want four times, the last one without a bound", c.reserved)
	}
}

// A pick that turns out to be too high is moved below, and the first reservation is named for release.
func TestMachineCorrectsItsPick(t *testing.T) {
	t.Parallel()
	c := cluster{counts: []int{10, 10, 10}, ours: true, rate: 1000, rtt: 20 * time.Millisecond}
	c.answer = func(index int, a *decide.Answer) {
		if len(c.reserved) == 1 && index == c.reserved[0].Index {
			a.Connections = 40
		}
	}
	got := c.decide(t, decide.New(seeded(1)), decide.Config{Reserve: true, Release: true, MaxJitter: jitter})
	if len(c.reserved) != 2 || got.Index != c.reserved[1].Index || got.Release != c.reserved[0].Index || got.Index == got.Release {
		t.Errorf("reserved %+v and ended with %+v, want a move", c.reserved, got)
	}
	if bound := c.reserved[len(c.reserved)-1].Bound; bound != 20 {
		t.Errorf("moved under the bound %d, want the mean of 20", bound)
	}
}

func TestMachineSettlesForWhatItHolds(t *testing.T) {
	t.Parallel()
	m := decide.New(seeded(1))
	m.Begin(decide.Config{Weights: make([]uint16, 2), Reserve: true, MaxJitter: jitter})
	if got := m.Settle(); got.Kind != decide.Done || got.Index != decide.None {
		t.Errorf("before a reservation: %+v, want nobody", got)
	}
	m.Begin(decide.Config{Weights: make([]uint16, 2), Reserve: true, Release: true, MaxJitter: jitter})
	m.Waited()
	crowd := decide.Answer{Known: true, HasRate: true, Rate: 1e5, RTT: time.Second}
	action := m.Answered(0, []decide.Answer{crowd, crowd})
	if next := m.Reserved(decide.Reply{Granted: true, Identified: true, Count: 1}); next.Kind != decide.Wait {
		t.Fatalf("after the reservation: %+v, want a wait", next)
	}
	if got := m.Settle(); got.Index != action.Index {
		t.Errorf("settled for %d, want %d", got.Index, action.Index)
	}
}

func TestKindString(t *testing.T) {
	t.Parallel()
	if got := fmt.Sprint(decide.Wait, decide.Ask, decide.Reserve, decide.Done); got != "wait ask reserve done" {
		t.Errorf("got %q", got)
	}
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	m := decide.New(seeded(1))
	weights := make([]uint16, 100)
	answers := make([]decide.Answer, 100)
	for i := range answers {
		answers[i] = decide.Answer{Known: true, Connections: i, HasRate: true, Rate: 100, RTT: 50 * time.Millisecond}
	}
	config := decide.Config{Weights: weights, Reserve: true}
	classic := decide.Config{Weights: weights, Reserve: true, Classic: true}
	for name, config := range map[string]decide.Config{"crowd": config, "all": classic} {
		once := func() {
			asked := m.Begin(config)
			m.Answered(0, answers[:len(asked.Ask)])
			m.Reserved(decide.Reply{Granted: true})
		}
		if n := testing.AllocsPerRun(100, once); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	weights := make([]uint16, 100)
	answers := make([]decide.Answer, 100)
	for i := range answers {
		answers[i] = decide.Answer{Known: true, Connections: i % 13, HasRate: true, RTT: 50 * time.Millisecond}
		weights[i] = uint16(i % 3)
	}
	m := decide.New(seeded(1))
	for name, config := range map[string]decide.Config{
		"classic": {Weights: weights, Reserve: true, Classic: true}, "alone": {Weights: weights, Reserve: true},
	} {
		b.Run("form="+name+"/candidates=100", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				action := m.Begin(config)
				for action.Kind == decide.Ask {
					action = m.Answered(0, answers[:len(action.Ask)])
				}
			}
		})
	}
}

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

// patience is that of clients by default.
func patience() decide.RebalanceConfig {
	return decide.RebalanceConfig{Interval: 30 * time.Second, Calm: 30 * time.Second, Rest: 5 * time.Minute}
}

// looking is a client that looks at servers which answer what a test wants.
type looking struct {
	rebalancer *decide.Rebalancer
	ballot     decide.Ballot
	now        time.Duration
	answer     func(index, question int) decide.Answer // questions of one look are counted from 0
	reply      func(decide.Action) decide.Reply

	questions int
	asked     [][]int
	reserved  []decide.Action
	paused    time.Duration
}

func newLooking(seed uint64, servers int) *looking {
	l := &looking{
		rebalancer: decide.NewRebalancer(patience(), seeded(seed), 0),
		ballot:     decide.Ballot{Weights: make([]uint16, servers)},
		reply:      func(decide.Action) decide.Reply { return decide.Reply{Granted: true, Identified: true, Count: 1} },
	}
	for i := range servers {
		l.ballot.Names = append(l.ballot.Names, fmt.Sprint("server ", i))
	}
	l.rebalancer.Began(0)
	return l
}

// counts has the servers tell these.
func (l *looking) counts(counts ...int) {
	l.answer = func(index, _ int) decide.Answer { return decide.Answer{Known: true, Connections: counts[index]} }
}

// look lets one look happen when it is due, and returns the pick.
func (l *looking) look(t interface{ Fatalf(string, ...any) }) int {
	l.now = max(l.now, l.rebalancer.Next())
	l.rebalancer.Look(l.now)
	l.questions, l.asked, l.reserved, l.paused = 0, nil, nil, 0
	action := l.rebalancer.Begin(l.now, l.ballot)
	for n := 0; action.Kind != decide.Done; n++ {
		if n > 10 {
			t.Fatalf("no decision after %d actions", n)
		}
		switch action.Kind {
		case decide.Wait:
			l.paused += action.Wait
			l.now += action.Wait
			action = l.rebalancer.Waited()
		case decide.Ask:
			l.asked = append(l.asked, slices.Clone(action.Ask))
			var answers []decide.Answer
			for _, index := range action.Ask {
				answers = append(answers, l.answer(index, l.questions))
			}
			l.questions++
			action = l.rebalancer.Answered(l.now, answers)
		case decide.Reserve:
			l.reserved = append(l.reserved, action)
			action = l.rebalancer.Reserved(l.reply(action))
		}
	}
	return action.Index
}

// chance is how often clients that have just begun to look move at once.
func chance(t *testing.T, n int, set func(*looking)) (moved float64, picks map[int]int) {
	t.Helper()
	const tries = 4000
	picks = make(map[int]int)
	for seed := range uint64(tries) {
		l := newLooking(seed, n)
		l.now = time.Minute
		set(l)
		if pick := l.look(t); pick != decide.None {
			moved++
			picks[pick]++
		}
	}
	return moved / tries, picks
}

func TestRebalancerMovesWhatIsTooMuchAndNoMore(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		counts  []int
		weights []uint16
		want    float64
	}{
		"a fleet that has grown from 3 to 5":        {[]int{100, 100, 100, 0, 0}, nil, .4},
		"a server that is back":                     {[]int{75, 75, 75, 75, 0}, nil, .2},
		"what is worth nothing":                     {[]int{63, 60, 60, 60, 57}, nil, 0},
		"one more than that":                        {[]int{64, 59, 60, 60, 57}, nil, 4. / 64},
		"the own server is not the one":             {[]int{50, 100, 0, 0, 0}, nil, 20. / 50},
		"the own server has less than others":       {[]int{10, 100, 100, 100, 100}, nil, 0},
		"three clients on one of two":               {[]int{3, 0}, nil, .5},
		"one client on one of two":                  {[]int{1, 0}, nil, 0},
		"a server that takes twice as many":         {[]int{80, 40, 40}, []uint16{2, 1, 1}, 0},
		"a server that takes half as many":          {[]int{40, 40, 40}, []uint16{1, 2, 2}, 16. / 40},
		"nobody":                                    {[]int{0, 0, 0}, nil, 0},
		"counts beyond all reason":                  {[]int{math.MaxInt, math.MaxInt, math.MaxInt}, nil, 0},
		"a count beyond all reason at the own one":  {[]int{math.MaxInt, 0, 0}, nil, 2. / 3},
		"a count beyond all reason at another one":  {[]int{100, math.MaxInt, 0}, nil, 0},
		"only one other, which tells nothing below": {[]int{5, -1}, nil, 0},
	} {
		got, picks := chance(t, len(tt.counts), func(l *looking) {
			l.counts(tt.counts...)
			if tt.weights != nil {
				l.ballot.Weights = tt.weights
			}
		})
		if math.Abs(got-tt.want) > .03 || tt.want == 0 && got > 0 {
			t.Errorf("%s: moved in %.3f of all looks, want %.3f", name, got, tt.want)
		}
		for pick := range picks {
			if pick == 0 || tt.counts[pick] > tt.counts[0] {
				t.Errorf("%s: moved to server %d", name, pick)
			}
		}
	}
}

// The emptier one gets more, in proportion.
func TestRebalancerFillsTheWater(t *testing.T) {
	t.Parallel()
	_, picks := chance(t, 4, func(l *looking) { l.counts(120, 60, 20, 40) }) // 60 on average
	if picks[1] > 0 || math.Abs(float64(picks[2])/float64(picks[3])-2) > .25 {
		t.Errorf("picks are %v, want twice as many of server 2 as of server 3, and none of server 1", picks)
	}
}

func TestRebalancerAsksASampleAndMoreBeforeItMoves(t *testing.T) {
	t.Parallel()
	met := make(map[int]bool)
	for seed := range uint64(200) {
		l := newLooking(seed, 50)
		l.now, l.ballot.Own = time.Minute, 17
		l.answer = func(index, _ int) decide.Answer {
			return decide.Answer{Known: true, Connections: 10 + 30*max(0, 1-max(index-17, 17-index))}
		}
		l.look(t)
		if len(l.asked[0]) != 8 || len(l.asked) > 1 && len(l.asked[1]) != 32 {
			t.Fatalf("asked %v, want 8 servers, and 32 before a move", l.asked)
		}
		for _, asked := range l.asked {
			seen := make(map[int]bool)
			for i, index := range asked {
				if index < 0 || index >= 50 || seen[index] || (index == 17) != (i == 0) {
					t.Fatalf("asked %v, want the own server first, and others", asked)
				}
				seen[index], met[index] = true, true
			}
		}
	}
	if len(met) != 50 {
		t.Errorf("%d of 50 servers were ever asked", len(met))
	}
}

// The own server is in every sample, but is only one of many: what it has too much shows in any of them.
func TestRebalancerSeesASmallSurplusInALargeFleet(t *testing.T) {
	t.Parallel()
	counts := make([]int, 30)
	for i := range counts {
		counts[i] = 20
	}
	counts[0], counts[1] = 22, 18
	if got, _ := chance(t, 30, func(l *looking) { l.counts(counts...) }); got < .06 || got > 2./22+.01 {
		t.Errorf("moved in %.3f of all looks, want about %.3f", got, 2./22)
	}
	counts[0], counts[1] = 21, 19
	if got, _ := chance(t, 30, func(l *looking) { l.counts(counts...) }); got > 0 {
		t.Errorf("moved in %.3f of all looks of an even fleet", got)
	}
}

// moving returns a client that is about to move in the look that is due: one that would not draw a move is passed over.
func moving(t *testing.T, set func(*looking)) (l *looking, pick int) {
	t.Helper()
	for seed := range uint64(100) {
		l = newLooking(seed, 3)
		l.now = time.Minute
		l.counts(100, 0, 0)
		set(l)
		if pick = l.look(t); len(l.asked) > 1 {
			return l, pick
		}
	}
	t.Fatal("nobody looked twice")
	return nil, 0
}

func TestRebalancerMovesOnlyWhenTwoLooksAgree(t *testing.T) {
	t.Parallel()
	l, pick := moving(t, func(l *looking) {
		l.answer = func(index, question int) decide.Answer {
			if index == 0 && question == 0 {
				return decide.Answer{Known: true, Connections: 1000}
			}
			return decide.Answer{Known: true, Connections: 10}
		}
	})
	if pick != decide.None || len(l.reserved) > 0 || l.paused <= 0 || l.paused > 3*time.Second {
		t.Errorf("picked %d, reserved %v, after a pause of %v", pick, l.reserved, l.paused)
	}
}

func TestRebalancerAndReservations(t *testing.T) {
	t.Parallel()
	granted := func(count int) func(decide.Action) decide.Reply {
		return func(decide.Action) decide.Reply { return decide.Reply{Granted: true, Identified: true, Count: count} }
	}
	stock := func(decide.Action) decide.Reply { return decide.Reply{Granted: true} }
	for name, tt := range map[string]struct {
		reply    func(decide.Action) decide.Reply
		after    int // what a stock server counts afterwards
		moves    bool
		reserved int
		asked    int
	}{
		"granted":                                {granted(1), 0, true, 1, 2},
		"granted by one that counts nobody":      {granted(0), 0, false, 1, 2},
		"granted where too many came":            {granted(37), 0, false, 1, 2},
		"granted by one that had more than told": {granted(30), 0, false, 1, 2},
		"failed":                                 {func(decide.Action) decide.Reply { return decide.Reply{} }, 0, false, 1, 2},
		"a stock server":                         {stock, 1, true, 1, 3},
		"a stock server that counts nobody":      {stock, 0, false, 1, 3},
		"a stock server to which too many came":  {stock, 37, false, 1, 3},
		"refused everywhere": {func(decide.Action) decide.Reply {
			return decide.Reply{Refused: true, Identified: true, Count: 34}
		}, 0, false, 2, 2},
		"a refusal that lies": {func(decide.Action) decide.Reply {
			return decide.Reply{Refused: true, Identified: true, Count: -1}
		}, 0, false, 2, 2},
	} {
		l, pick := moving(t, func(l *looking) {
			l.reply = tt.reply
			l.answer = func(index, question int) decide.Answer {
				counts := []int{100, 0, 0}
				if question == 2 {
					return decide.Answer{Known: true, Connections: tt.after}
				}
				return decide.Answer{Known: true, Connections: counts[index]}
			}
		})
		if (pick != decide.None) != tt.moves || len(l.reserved) != tt.reserved || len(l.asked) != tt.asked {
			t.Errorf("%s: picked %d, reserved %d times and asked %d times, want %d and %d", name, pick, len(l.reserved), len(l.asked), tt.reserved, tt.asked)
		}
		if got := l.reserved[0]; got.Bound != 34 || got.Plain {
			t.Errorf("%s: reserved with %+v, want the mean, rounded up, for a bound", name, got)
		}
	}
}

// A server that does not count those that come is not tried again soon.
func TestRebalancerDoesNotBelieveAServerThatCountsNobody(t *testing.T) {
	t.Parallel()
	l, _ := moving(t, func(l *looking) {
		l.ballot.Names, l.ballot.Weights = l.ballot.Names[:2], l.ballot.Weights[:2]
		l.reply = func(decide.Action) decide.Reply { return decide.Reply{Granted: true, Identified: true} }
	})
	for doubted := l.now; l.now < doubted+4*time.Minute; {
		if l.look(t); len(l.reserved) > 0 {
			t.Fatalf("reserved there again after %v", l.now-doubted)
		}
	}
}

func TestRebalancerKeepsStillInTrouble(t *testing.T) {
	t.Parallel()
	known, unknown := decide.Answer{Known: true, Connections: 1}, decide.Answer{}
	crowded := decide.Answer{Known: true, Connections: 100}
	for name, tt := range map[string]struct {
		before  func(*looking)
		answers []decide.Answer
		moves   bool
	}{
		"all is well":                  {func(*looking) {}, []decide.Answer{crowded, known, known}, true},
		"the session is young":         {func(l *looking) { l.rebalancer.Began(l.now - 29*time.Second) }, []decide.Answer{crowded, known, known}, false},
		"something went wrong":         {func(l *looking) { l.rebalancer.Troubled(l.now - 29*time.Second) }, []decide.Answer{crowded, known, known}, false},
		"a server has no count":        {func(*looking) {}, []decide.Answer{crowded, known, unknown}, false},
		"a server drains":              {func(*looking) {}, []decide.Answer{crowded, known, {Known: true, Draining: true}}, false},
		"the own server has no count":  {func(*looking) {}, []decide.Answer{unknown, known, known}, false},
		"a server has had none so far": {func(l *looking) { l.answered(t, crowded, known, unknown) }, []decide.Answer{crowded, known, unknown}, true},
		"most have had none so far":    {func(l *looking) { l.answered(t, crowded, unknown, unknown) }, []decide.Answer{crowded, unknown, unknown}, false},
		"a server has a count again":   {func(l *looking) { l.answered(t, crowded, known, unknown) }, []decide.Answer{crowded, known, known}, true},
	} {
		got, _ := chance(t, 3, func(l *looking) {
			tt.before(l)
			l.answer = func(index, _ int) decide.Answer { return tt.answers[index] }
		})
		if (got > 0) != tt.moves {
			t.Errorf("%s: moved in %.3f of all looks", name, got)
		}
	}
}

// answered lets a look pass, and what it found become old.
func (l *looking) answered(t *testing.T, answers ...decide.Answer) {
	t.Helper()
	l.answer = func(index, _ int) decide.Answer { return answers[index] }
	l.reply = func(decide.Action) decide.Reply { return decide.Reply{} }
	l.look(t)
	l.now += 2 * time.Minute
	l.reply = func(decide.Action) decide.Reply { return decide.Reply{Granted: true, Identified: true, Count: 1} }
}

// session is a client that has just begun one at a server, and looks for so long: it returns where it went first.
func session(t *testing.T, l *looking, patience time.Duration) int {
	t.Helper()
	l.rebalancer.Began(l.now)
	for began := l.now; l.now < began+patience; {
		if pick := l.look(t); pick != decide.None {
			return pick
		}
	}
	return decide.None
}

// One server that says much more than is true does not keep the others from being even: it is left out when that does not
// change. While it comes down it is heeded.
func TestRebalancerLeavesOutServersThatStayAbove(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		above func(now time.Duration) int
		moves bool
	}{
		"one that stays":      {func(time.Duration) int { return 1000 }, true},
		"one beyond reason":   {func(time.Duration) int { return math.MaxInt }, true},
		"one that comes down": {func(now time.Duration) int { return int(1000 * math.Pow(.8, now.Minutes())) }, false},
	} {
		moved, soon := 0, 0
		for seed := range uint64(50) {
			l := newLooking(seed, 6)
			l.answer = func(index, _ int) decide.Answer {
				counts := []int{75, 75, 75, 0, 0, tt.above(l.now)}
				return decide.Answer{Known: true, Connections: counts[index]}
			}
			if pick := session(t, l, 4*time.Minute); pick != decide.None {
				moved++
				if l.now < 2*time.Minute {
					soon++
				}
				if pick != 3 && pick != 4 {
					t.Errorf("%s: moved to server %d", name, pick)
				}
			}
		}
		if tt.moves != (moved > 25) || soon > 0 {
			t.Errorf("%s: %d of 50 clients moved within 4 minutes, %d of them within 2", name, moved, soon)
		}
	}
}

// A server that counts nobody although the client itself is there loses as many as would not be there by random picks.
func TestRebalancerLeavesAServerThatDoesNotCountIt(t *testing.T) {
	t.Parallel()
	moved, back := 0, 0
	for seed := range uint64(500) {
		l := newLooking(seed, 5)
		l.counts(0, 90, 90, 90, 90)
		if pick := session(t, l, time.Hour); pick == decide.None {
			continue
		}
		moved++
		l.ballot.Own = 1
		if seed%10 == 0 && session(t, l, 50*time.Minute) != decide.None {
			back++
		}
	}
	if moved < 360 || moved > 440 || back > 0 {
		t.Errorf("%d of 500 left, want about 400: %d came back within the hour", moved, back)
	}
	for name, counts := range map[string][]int{"none counts anybody": {0, 0, 0, 0, 0}, "hardly anybody": {0, 1, 0, 1, 0}} {
		l := newLooking(1, 5)
		l.counts(counts...)
		if pick := session(t, l, time.Hour); pick != decide.None {
			t.Errorf("%s: moved to %d", name, pick)
		}
	}
}

// Moving to a server that falls again and again is of no use.
func TestRebalancerKeepsAwayFromAServerThatFallsAgainAndAgain(t *testing.T) {
	t.Parallel()
	for falls, want := range map[int]bool{1: true, 2: true, 3: false, 5: false} {
		moved := 0
		for seed := range uint64(50) {
			l := newLooking(seed, 4)
			l.now, l.reply = time.Minute, func(decide.Action) decide.Reply { return decide.Reply{} } // nobody moves yet
			fallen := false
			l.answer = func(index, _ int) decide.Answer {
				return decide.Answer{Known: index < 3 || !fallen, Connections: []int{60, 60, 60, 0}[index]}
			}
			for range falls {
				l.look(t)
				fallen = true
				l.now += time.Minute
				l.look(t)
				fallen = false
				l.now += time.Minute
			}
			l.reply = func(decide.Action) decide.Reply { return decide.Reply{Granted: true, Identified: true, Count: 1} }
			if session(t, l, 4*time.Minute) == 3 {
				moved++
			}
		}
		if (moved > 25) != want {
			t.Errorf("after %d falls %d of 50 moved there within 4 minutes", falls, moved)
		}
	}
}

func TestRebalancerLooksAtIntervals(t *testing.T) {
	t.Parallel()
	r := decide.NewRebalancer(patience(), seeded(1), time.Hour)
	if first := r.Next() - time.Hour; first < 0 || first >= 30*time.Second {
		t.Errorf("first look after %v, want any time of the first interval", first)
	}
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		now := r.Next()
		r.Look(now)
		least, most = min(least, r.Next()-now), max(most, r.Next()-now)
	}
	if least < 22500*time.Millisecond || most > 37500*time.Millisecond || most-least < 14*time.Second {
		t.Errorf("waits from %v to %v, want from 22.5s to 37.5s", least, most)
	}
	l := newLooking(1, 2)
	l.now = time.Minute
	for l.counts(20, 18); l.questions == 0; {
		l.look(t)
	}
	l.counts(110, 80) // uneven
	for range 20 {
		if l.look(t); l.questions == 1 && (l.rebalancer.Next()-l.now < 11*time.Second || l.rebalancer.Next()-l.now > 19*time.Second) {
			t.Errorf("next look after %v where 15 are too many", l.rebalancer.Next()-l.now)
		}
		l.now += 2 * time.Hour // longer than it rests
	}
	l.counts(22, 18)
	for range 20 {
		if l.look(t); l.questions == 1 && l.rebalancer.Next()-l.now > 9500*time.Millisecond {
			t.Errorf("next look after %v where 2 are too many", l.rebalancer.Next()-l.now)
		}
		l.now += 2 * time.Hour
	}
	l.counts(100, 90)
	for range 100 {
		l.look(t)
		if wait := l.rebalancer.Next() - l.now; l.questions == 1 && wait > 37500*time.Millisecond {
			t.Errorf("next look after %v", wait)
		}
	}
}

// Whatever servers say, a client never moves to one that it should not, nor sooner than it may, and each look ends.
func TestRebalancerHoldsItsPromises(t *testing.T) {
	t.Parallel()
	number := rapid.OneOf(rapid.IntRange(0, 200), rapid.Int())
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "servers")
		l := newLooking(rapid.Uint64().Draw(t, "seed"), n)
		l.ballot.Own = rapid.IntRange(0, n-1).Draw(t, "own")
		for i := range l.ballot.Weights {
			l.ballot.Weights[i] = rapid.Uint16().Draw(t, "weight")
		}
		usable := make([]bool, n)
		l.answer = func(index, _ int) decide.Answer {
			a := decide.Answer{
				Known: rapid.IntRange(0, 9).Draw(t, "known") > 0, Connections: number.Draw(t, "count"), Capacity: rapid.IntRange(0, 5).Draw(t, "capacity"),
				Draining: rapid.IntRange(0, 9).Draw(t, "draining") == 0,
			}
			usable[index] = a.Known && a.Connections >= 0 && !a.Draining
			return a
		}
		l.reply = func(a decide.Action) decide.Reply {
			if a.Index == l.ballot.Own || !usable[a.Index] || a.Bound < 1 {
				t.Fatalf("reserves with %+v, own %d", a, l.ballot.Own)
			}
			return decide.Reply{
				Granted: rapid.Bool().Draw(t, "granted"), Refused: rapid.Bool().Draw(t, "refused"),
				Identified: rapid.Bool().Draw(t, "identified"), Count: number.Draw(t, "counted"),
			}
		}
		began, moved, rest := time.Duration(0), time.Duration(math.MinInt64/2), time.Duration(0)
		for range 40 {
			pick := l.look(t)
			if l.rebalancer.Next() <= l.now-time.Second {
				t.Fatalf("next look at %v, now %v", l.rebalancer.Next(), l.now)
			}
			if pick == decide.None {
				continue
			}
			if pick == l.ballot.Own || pick < 0 || pick >= n {
				t.Fatalf("moves from %d to %d", l.ballot.Own, pick)
			}
			if l.now-moved < rest || l.now-began < patience().Calm {
				t.Fatalf("moves at %v, after a move at %v and a session that began at %v", l.now, moved, began)
			}
			if rest = min(2*rest, 12*patience().Rest); rest == 0 || l.now-moved >= 2*rest {
				rest = patience().Rest
			}
			moved, began, l.ballot.Own = l.now, l.now, pick
			l.rebalancer.Began(l.now)
		}
	})
}

func TestRebalancerAllocatesNothing(t *testing.T) {
	l := newLooking(1, 100)
	answers := make([]decide.Answer, 8)
	for i := range answers {
		answers[i] = decide.Answer{Known: true, Connections: 10}
	}
	now := time.Hour
	look := func() {
		now += time.Minute
		l.rebalancer.Look(now)
		if action := l.rebalancer.Begin(now, l.ballot); action.Kind == decide.Ask {
			l.rebalancer.Answered(now, answers)
		}
	}
	for range 1000 { // until all servers were met
		look()
	}
	if got := testing.AllocsPerRun(1000, look); got > 0 {
		t.Errorf("a look allocates %v times", got)
	}
}

func BenchmarkRebalancerLook(b *testing.B) {
	l := newLooking(1, 100)
	answers := make([]decide.Answer, 8)
	for i := range answers {
		answers[i] = decide.Answer{Known: true, Connections: 10 + 100*(1-min(i, 1))}
	}
	now := time.Hour
	b.ReportAllocs()
	for b.Loop() {
		now += time.Hour
		l.rebalancer.Look(now)
		l.rebalancer.Begin(now, l.ballot)
		l.rebalancer.Answered(now, answers)
	}
}

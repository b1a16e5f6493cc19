// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/resolver"
	"pgregory.net/rapid"
)

func TestWheelGivesEachWeightItsShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Uint32(), 1, 200).Draw(t, "weights")
		w := newWheel(weights)
		total := new(big.Int)
		for _, weight := range weights {
			total.Add(total, big.NewInt(int64(max(1, weight))))
		}
		begin := uint64(0)
		for i, weight := range weights {
			last := w.lasts[i]
			// The length is 2^64 * weight / total, rounded.
			want := new(big.Int).Lsh(big.NewInt(int64(max(1, weight))), 64)
			want.Div(want, total)
			length := new(big.Int).SetUint64(last - begin)
			if off := length.Sub(length, want).Int64(); off < -2 || off > 2 {
				t.Fatalf("stretch %d of weight %d is off by %d", i, weight, off)
			}
			for _, x := range []uint64{begin, last, begin + (last-begin)/2} {
				if got := w.find(x); got != i {
					t.Fatalf("%d is in stretch %d, got %d", x, i, got)
				}
			}
			begin = last + 1
		}
		if w.lasts[len(weights)-1] != math.MaxUint64 {
			t.Fatal("the wheel does not end where numbers do")
		}
	})
}

func TestFailuresCountForASecond(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f failures
		var all []uint64 // the ticks of all failures
		now := rapid.Uint64Range(0, tickMask).Draw(t, "begin")
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			now += rapid.Uint64Range(0, 7).Draw(t, "ticks")
			if rapid.Bool().Draw(t, "fails") {
				f = f.at(now & tickMask).plusOne()
				all = append(all, now)
			}
			want := int64(0)
			for _, at := range all {
				if now-at < failureTicks {
					want++
				}
			}
			if got := f.at(now & tickMask).sum(); got != want {
				t.Fatalf("at tick %d: got %d of %v, want %d", now, got, all, want)
			}
		}
	})
}

func TestFailuresStopAtTheLargestCount(t *testing.T) {
	t.Parallel()
	f := failures(0).at(9)
	for range 1000 {
		f = f.plusOne()
	}
	if got := f.sum(); got != counterMask {
		t.Errorf("got %d, want %d", got, counterMask)
	}
	if got := f.at(8); got != f {
		t.Error("a clock that was read earlier took failures away")
	}
}

func TestLaneKeepsOrderAndWaitsAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l lane
		var got []int
		for i := range 100 {
			l.do(func() { got = append(got, i) })
		}
		synctest.Wait()
		for i, n := range got {
			if i != n {
				t.Fatalf("got %v, want them in order", got)
			}
		}
		ended := false
		l.do(func() {
			time.Sleep(time.Second)
			ended = true
		})
		synctest.Wait()
		l.do(func() { t.Error("ran after close") })
		l.close()
		if !ended || len(got) != 100 {
			t.Errorf("ended %t with %d functions, want that close waits for what runs", ended, len(got))
		}
		l.do(func() { t.Error("ran after close") })
		l.close()
	})
}

func TestEndpointIsItsAddressesWithTheirNames(t *testing.T) {
	t.Parallel()
	endpoint := func(addrs ...resolver.Address) resolver.Endpoint { return resolver.Endpoint{Addresses: addrs} }
	a, b := resolver.Address{Addr: "a:1"}, resolver.Address{Addr: "b:1"}
	named := resolver.Address{Addr: "a:1", ServerName: "n"}
	type key struct{}
	marked := a
	marked.Attributes = marked.Attributes.WithValue(key{}, 1)
	cases := []struct {
		name string
		x, y resolver.Endpoint
		same bool
	}{
		{"the same", endpoint(a), endpoint(a), true},
		{"other attributes", endpoint(a), endpoint(marked), true},
		{"other order", endpoint(a, b), endpoint(b, a), true},
		{"one address twice", endpoint(a, b), endpoint(a, b, a), true},
		{"another port", endpoint(a), endpoint(resolver.Address{Addr: "a:2"}), false},
		{"another name", endpoint(a), endpoint(named), false},
		{"one address more", endpoint(a), endpoint(a, b), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := keyOf(c.x) == keyOf(c.y); got != c.same {
				t.Errorf("got same %t, want %t", got, c.same)
			}
		})
	}
	if got := keyOf(resolver.Endpoint{}); got != "" {
		t.Errorf("got key %q of an endpoint without addresses, want none", got)
	}
}

// Policies above ours may hand our config on as text.
func TestConfigSurvivesAsText(t *testing.T) {
	t.Parallel()
	for _, given := range []string{`{}`, `{"drainTimeout":"1.5s","choiceCount":4}`, `{"drainTimeout":"0.000000001s"}`} {
		read, err := parseConfig(json.RawMessage(given))
		if err != nil {
			t.Fatalf("%s: %v", given, err)
		}
		text, err := json.Marshal(read)
		if err != nil {
			t.Fatalf("%s: write: %v", given, err)
		}
		again, err := parseConfig(text)
		if err != nil {
			t.Fatalf("%s: read %s: %v", given, text, err)
		}
		if *again != *read {
			t.Errorf("%s: got %+v from %s, want %+v", given, *again, text, *read)
		}
	}
}

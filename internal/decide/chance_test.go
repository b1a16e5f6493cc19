// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel-go/evenkeel/internal/decide"
)

// alone lets a client decide that nobody else comes with.
func alone(random *rand.Rand, weights []uint16, answers []decide.Answer) int {
	m := decide.New(random)
	action := m.Begin(decide.Config{Weights: weights, Reserve: true})
	for action.Kind != decide.Done {
		switch action.Kind {
		case decide.Ask:
			some := make([]decide.Answer, len(action.Ask))
			for i, index := range action.Ask {
				some[i] = answers[index]
			}
			action = m.Answered(time.Millisecond, some)
		case decide.Reserve:
			action = m.Reserved(decide.Reply{Granted: true, Identified: true, Count: answers[action.Index].Connections + 1})
		default:
			action = m.Waited()
		}
	}
	return action.Index
}

// TestChancesAreThoseOfTheMachine: who has a chance is picked as often as that says, and nobody else ever.
func TestChancesAreThoseOfTheMachine(t *testing.T) {
	t.Parallel()
	const picks = 400
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "candidates")
		weights, answers := make([]uint16, n), make([]decide.Answer, n)
		for i := range n {
			weights[i] = uint16(rapid.IntRange(0, 3).Draw(t, "weight"))
			answers[i] = decide.Answer{
				Known:       rapid.Bool().Draw(t, "known"),
				Connections: rapid.IntRange(0, 4).Draw(t, "connections"),
				Capacity:    rapid.IntRange(0, 3).Draw(t, "capacity"),
				Draining:    rapid.Bool().Draw(t, "draining"),
			}
		}
		chances := decide.Chances(weights, answers)
		random := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		counts := make([]float64, n)
		for range picks {
			counts[alone(random, weights, answers)]++
		}
		for i, chance := range chances {
			// Six standard deviations, so that no seed is unlucky.
			slack := 6 * math.Sqrt(picks*chance*(1-chance))
			if math.Abs(counts[i]-picks*chance) > slack+1e-6 {
				t.Fatalf("candidate %d is picked %v of %d times, its chance is %v (weights %v, answers %+v)",
					i, counts[i], picks, chance, weights, answers)
			}
		}
	})
}

func TestDrawChancesAreThoseOfDraw(t *testing.T) {
	t.Parallel()
	const draws = 20_000
	weights := []uint16{0, 1, 3}
	random := rand.New(rand.NewPCG(1, 2))
	counts := make([]float64, len(weights))
	for range draws {
		counts[decide.Draw(weights, random)]++
	}
	for i, chance := range decide.DrawChances(weights) {
		if got := counts[i] / draws; math.Abs(got-chance) > 0.02 {
			t.Errorf("weight %d is drawn with %v, its chance is %v", weights[i], got, chance)
		}
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import "github.com/evenkeel-go/evenkeel/internal/decide"

// Chances returns how likely least-connections picks each of the candidates, from 0 to 1, when a client decides alone upon
// these observations of all of them: by the rules and with the input of the strategy itself. The chances are in the order of
// the observations and add up to 1; there are none without candidates. As for a [Strategy], the candidates have one priority
// in common.
func Chances(observations []Observation) []float64 {
	if len(observations) == 0 {
		return nil
	}
	weights := make([]uint16, len(observations))
	answers := make([]decide.Answer, len(observations))
	for i := range observations {
		weights[i], answers[i] = observations[i].Endpoint.Weight, answerOf(&observations[i])
	}
	return decide.Chances(weights, answers)
}

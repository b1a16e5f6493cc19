// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

// Algorithm is how the clients of a simulation pick their servers.
type Algorithm string

// The algorithms, in the order in which they are compared.
const (
	// Random picks by weight, and asks nobody.
	Random Algorithm = "random"
	// RoundRobin starts anywhere and takes turns, and asks nobody.
	RoundRobin Algorithm = "round-robin"
	// Classic asks all servers and takes the minimum, as stock clients do.
	Classic Algorithm = "classic"
	// TwoChoices asks two servers and takes the minimum. No client of ours does it; it is the literature's answer.
	TwoChoices Algorithm = "two-choices"
	// EvenkeelStock is our client with stock servers.
	EvenkeelStock Algorithm = "evenkeel-stock"
	// Evenkeel is our client with our servers.
	Evenkeel Algorithm = "evenkeel"
)

// Algorithms returns all of them, in the order in which they are compared.
func Algorithms() []Algorithm {
	return []Algorithm{Random, RoundRobin, Classic, TwoChoices, EvenkeelStock, Evenkeel}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package decide

import "time"

// Kind is what an Action asks for.
type Kind uint8

// The kinds of actions, and the method that is told what came of each.
const (
	// Wait asks to wait for Action.Wait; then Waited.
	Wait Kind = iota
	// Ask asks for the counts of the candidates in Action.Ask; then Answered.
	Ask
	// Reserve asks for a reservation at Action.Index; then Reserved.
	Reserve
	// Done says that Action.Index is the pick.
	Done
)

// String returns the kind in lower case.
func (k Kind) String() string {
	return [...]string{"wait", "ask", "reserve", "done"}[k]
}

// None is the index of no candidate, and as a bound that there is none.
const None = -1

// Action is what is to be done next. Only the fields of its kind mean something.
type Action struct {
	Kind Kind
	// Wait is how long to wait.
	Wait time.Duration
	// Ask are the indices of the candidates to ask, all at once. It belongs to the machine and is good until the next
	// call.
	Ask []int
	// Index is the candidate to reserve at, or the pick.
	Index int
	// Bound is the count below which the server is to grant the reservation; None where it is to grant it anyway.
	Bound int
	// Plain says that the reservation is to be the stock one, without an identity.
	Plain bool
	// Release is the candidate whose reservation, made for this decision, is to be given up; None where there is none. It
	// comes with Done only.
	Release int
}

// Answer is what came of asking one candidate. The zero value says that no count came.
type Answer struct {
	// Known says that a count came.
	Known bool
	// Connections is the count.
	Connections int
	// At is when the answer came, on the clock of the caller, and RTT how long it took.
	At, RTT time.Duration
	// HasRate says that the server told how many clients a second come to it, and Rate is what it told.
	HasRate bool
	Rate    float64
	// Capacity is how many clients the server takes in proportion to others; 0 where it does not say.
	Capacity int
	// Draining says that the server wants no more clients.
	Draining bool
}

// Reply is what came of a reservation. The zero value says that it failed.
type Reply struct {
	// Granted says that it was made, and Refused that the bound forbade it.
	Granted, Refused bool
	// Identified says that it can be released, and that Count is told.
	Identified bool
	// Count is the server's count after it, or the one that broke the bound.
	Count int
}

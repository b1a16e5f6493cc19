// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package arrival measures how many clients a second come to a server, for the server to tell and for the simulator to
// tell the same:
//
//	var rate arrival.Rate
//	rate.Add(now)
//	perSecond := rate.At(now)
//	rate.Withdraw(then, now) // an arrival that was none
//
// # Configuration
//
// None: the zero value is ready.
//
// # Errors
//
// There are none. A clock that goes back is taken for one that stands.
//
// # Concurrency
//
// A Rate is guarded by its owner.
//
// # Specification
//
// An exponentially weighted rate with a time constant of Memory.
package arrival

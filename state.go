// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import "strconv"

// State is what a Conn is doing. The words are gRPC's own.
type State int

// The states of a Conn. It begins in StateConnecting.
const (
	// StateConnecting: an attempt is running and nothing has failed since the last session. Calls wait for it.
	StateConnecting State = iota
	// StateReady: a session is up. Calls go to its server.
	StateReady
	// StateTransientFailure: the last attempt failed, or two sessions in a row were lost within 2 s; the next attempt
	// waits for its turn or is running. Calls that do not wait for ready fail with the cause.
	StateTransientFailure
	// StateShutdown: the Conn was closed, or ended by WithStopOn. It stays so.
	StateShutdown
)

// String returns the name of the state in lower case, such as "ready" or "transient failure".
func (s State) String() string {
	switch s {
	case StateConnecting:
		return "connecting"
	case StateReady:
		return "ready"
	case StateTransientFailure:
		return "transient failure"
	case StateShutdown:
		return "shutdown"
	default:
		return "state " + strconv.Itoa(int(s))
	}
}

// MarshalText returns the same as String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// outcome is what ended the activity of a state: the input of step.
type outcome int

const (
	attemptSucceeded outcome = iota
	attemptFailed
	sessionLost
	sessionFlapped // lost before it had been up for minUptime, as the one before it was
	sessionLeaving // still serves, but is to be moved to another server
	sessionKept    // was to be moved, and stays where it is
	lookDue        // it is time to see whether the session had better be elsewhere
	waitEnded
	stopped // failed in a way after which the program wants no more
	closed
)

// action is what the loop does next: the output of step.
type action int

const (
	actAttempt   action = iota // make a generation
	actHold                    // keep it until it is lost
	actMove                    // make another one before it is let go
	actRebalance               // look whether there is a better server, and then the same
	actBackOff                 // wait for the next attempt
	actEnd
)

// step is the life of a Conn: from a state and what happened in it to the next state and what to do there.
//
// A failed attempt makes the failure stick: the attempts that follow run in StateTransientFailure, so that calls which
// do not wait for ready go on failing fast until a session is up, as they do on a *grpc.ClientConn. A move keeps
// StateReady for its one attempt, since the old session serves until the new one does.
func step(s State, o outcome) (State, action) {
	if o == closed || o == stopped || s == StateShutdown {
		return StateShutdown, actEnd
	}
	switch o {
	case attemptSucceeded, sessionKept:
		return StateReady, actHold
	case sessionLeaving:
		return StateReady, actMove
	case lookDue:
		return StateReady, actRebalance
	case attemptFailed, sessionFlapped:
		return StateTransientFailure, actBackOff
	case sessionLost:
		return StateConnecting, actAttempt
	case waitEnded:
		return s, actAttempt
	default:
		return s, actAttempt
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import "github.com/evenkeel-go/evenkeel/contract"

// phase is how far the life of a registry has come; it only goes up.
type phase int32

const (
	phaseServing phase = iota
	phaseDraining
	phaseClosed
)

// String names the phase as an HTTP client is told.
func (p phase) String() string {
	switch p {
	case phaseServing:
		return "Healthy"
	case phaseDraining:
		return "Draining"
	default:
		return "Unhealthy"
	}
}

// reason is why a client is refused in that phase; empty means that it is not.
func (p phase) reason() string {
	switch p {
	case phaseServing:
		return ""
	case phaseDraining:
		return contract.ReasonDraining
	default:
		return contract.ReasonClosing
	}
}

// phase returns the phase that the registry is in. It takes no lock; where a client or a reservation depends on it, mu is
// held, since it is changed under mu.
func (r *Registry) phase() phase { return phase(r.phaseNow.Load()) }

// advanceLocked goes on to a later phase, and reports false when the registry is there or beyond.
func (r *Registry) advanceLocked(to phase) bool {
	if r.phase() >= to {
		return false
	}
	if r.phase() == phaseServing {
		close(r.leaving)
	}
	r.phaseNow.Store(int32(to))
	return true
}

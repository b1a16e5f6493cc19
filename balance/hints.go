// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import "context"

type (
	withoutJitter      struct{}
	withoutReservation struct{}
)

// WithoutJitter returns a context in which the strategies of this package select without their random wait. It is for
// the client that was told to leave its server: the server has spread its clients over time already. A strategy of a
// user may ask for it with [JitterWanted].
func WithoutJitter(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutJitter{}, true)
}

// JitterWanted says whether a selection under ctx should wait as it is set to: it is true unless ctx comes from
// WithoutJitter.
func JitterWanted(ctx context.Context) bool { return ctx.Value(withoutJitter{}) == nil }

// WithoutReservation returns a context in which the strategies of this package reserve nothing: for the client that the
// server will not count, whose reservation would stand for nobody. A strategy of a user may ask for it with
// [ReservationWanted].
func WithoutReservation(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutReservation{}, true)
}

// ReservationWanted says whether a selection under ctx should reserve: it is true unless ctx comes from
// WithoutReservation.
func ReservationWanted(ctx context.Context) bool { return ctx.Value(withoutReservation{}) == nil }

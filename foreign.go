// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"fmt"
	"time"
)

// foreignGrace is how long code of the program may take to notice that its context is done.
const foreignGrace = 50 * time.Millisecond

// ask calls code of the program, which may panic, also in the text of its error, and may ignore its context: a panic
// becomes an error, as nobody could recover on our goroutine, as does the end of the goroutine (runtime.Goexit), and a
// call that outlives ctx is left to itself. turn holds a token while a call is going on, so that a strategy is never
// called twice at a time; the next call waits for it, as long as ctx allows.
func ask[T any](ctx context.Context, turn chan struct{}, who string, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("%s has not returned from an earlier call: %w", who, context.Cause(ctx))
	}
	answers := make(chan answer, 1)
	go func() {
		a := answer{err: fmt.Errorf("%s ended its goroutine", who)}
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("%s panicked: %v", who, p)
			}
			<-turn
			answers <- a
		}()
		value, err := call()
		if err != nil {
			_ = err.Error() // of an error that is a nil pointer, the text is a panic
		}
		a.value, a.err = value, err
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(foreignGrace)
	defer grace.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-grace.C:
		return none, fmt.Errorf("%s has not returned: %w", who, context.Cause(ctx))
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestStepForEveryPair(t *testing.T) {
	t.Parallel()
	type next struct {
		state  State
		action action
	}
	outcomes := []outcome{
		attemptSucceeded, attemptFailed, sessionLost, sessionFlapped, sessionLeaving, sessionKept, waitEnded, lookDue, closed,
	}
	want := map[State][]next{
		StateConnecting: {
			{StateReady, actHold},
			{StateTransientFailure, actBackOff},
			{StateConnecting, actAttempt},
			{StateTransientFailure, actBackOff},
			{StateReady, actMove},
			{StateReady, actHold},
			{StateConnecting, actAttempt},
			{StateReady, actRebalance},
			{StateShutdown, actEnd},
		},
		StateReady: {
			{StateReady, actHold},
			{StateTransientFailure, actBackOff},
			{StateConnecting, actAttempt},
			{StateTransientFailure, actBackOff},
			{StateReady, actMove},
			{StateReady, actHold},
			{StateReady, actAttempt},
			{StateReady, actRebalance},
			{StateShutdown, actEnd},
		},
		StateTransientFailure: {
			{StateReady, actHold},
			{StateTransientFailure, actBackOff},
			{StateConnecting, actAttempt},
			{StateTransientFailure, actBackOff},
			{StateReady, actMove},
			{StateReady, actHold},
			{StateTransientFailure, actAttempt},
			{StateReady, actRebalance},
			{StateShutdown, actEnd},
		},
		StateShutdown: slices.Repeat([]next{{StateShutdown, actEnd}}, len(outcomes)),
	}
	for state, row := range want {
		for i, o := range outcomes {
			gotState, gotAction := step(state, o)
			if got := (next{gotState, gotAction}); got != row[i] {
				t.Errorf("step(%v, outcome %d) = %v, action %d, want %v, action %d",
					state, o, got.state, got.action, row[i].state, row[i].action)
			}
		}
	}
}

func TestLadderDoublesToItsTopAndResetsAfterASteadySession(t *testing.T) {
	t.Parallel()
	var l ladder
	for i, rung := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		rung *= time.Second
		if got := l.climb(); got < rung/2 || got > rung {
			t.Errorf("wait %d = %v, want between %v and %v", i, got, rung/2, rung)
		}
	}
	l.sessionEnded(steadyUptime - 1)
	if got := l.climb(); got < maxBackoff/2 {
		t.Errorf("after a short session the wait is %v, want at least %v", got, maxBackoff/2)
	}
	l.sessionEnded(steadyUptime)
	if got := l.climb(); got > firstBackoff {
		t.Errorf("after a steady session the wait is %v, want at most %v", got, firstBackoff)
	}
}

func TestPauseShowsOnEitherClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		last := time.Now()
		if paused(last, last.Add(pauseLimit)) {
			t.Error("exactly the limit counts as a pause")
		}
		if !paused(last, last.Add(pauseLimit+1)) {
			t.Error("more than the limit is no pause")
		}
		time.Sleep(time.Second)
		// The wall clock went on while the monotonic clock stood still, as it does when a machine is suspended:
		// without its monotonic part, a time is compared by the wall clock alone.
		if now := last.Round(0).Add(pauseLimit + time.Second); !paused(last, now) {
			t.Error("a jump of the wall clock is no pause")
		}
	})
}

func TestDispatcherKeepsOrderDropsTheOldestAndSaysHowMany(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var got []Event
	d := newDispatcher(func(e Event) {
		once.Do(func() { close(entered); <-release })
		got = append(got, e)
	})
	const extra = 44
	d.put(Event{Generation: 0})
	<-entered // the first event is with the callback, so the queue is empty
	for i := range uint64(eventQueueSize + extra) {
		d.put(Event{Generation: i + 1})
	}
	close(release)
	d.end()
	d.put(Event{Generation: 9999}) // after the end: not taken
	<-d.done

	if len(got) != 1+eventQueueSize {
		t.Fatalf("got %d events, want %d", len(got), 1+eventQueueSize)
	}
	for i, e := range got[1:] {
		if want := uint64(extra + 1 + i); e.Generation != want {
			t.Fatalf("event %d is number %d, want %d", i+1, e.Generation, want)
		}
		wantDropped := 0
		if i == 0 {
			wantDropped = extra
		}
		if e.Dropped != wantDropped {
			t.Errorf("event %d says %d were dropped, want %d", i+1, e.Dropped, wantDropped)
		}
	}
}

func TestDispatcherReportsAPanicAndGoesOn(t *testing.T) {
	t.Parallel()
	var got []string
	d := newDispatcher(func(e Event) {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Err))
		if e.Kind == EventConnected || e.Kind == EventPanicked {
			panic("boom")
		}
	})
	d.put(Event{Kind: EventConnected})
	d.put(Event{Kind: EventClosed})
	d.end()
	<-d.done
	want := []string{
		"connected <nil>",
		`panicked event callback panicked at "connected": boom`,
		"closed <nil>",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

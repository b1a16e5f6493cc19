// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package arrival_test

import (
	"math"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/arrival"
)

func TestRate(t *testing.T) {
	t.Parallel()
	var rate arrival.Rate
	if got := rate.At(time.Hour); got != 0 {
		t.Errorf("before anything: %v, want 0", got)
	}
	const step = 2 * time.Millisecond
	now := time.Duration(0)
	for range 500 {
		now += step
		rate.Add(now)
	}
	if got := rate.At(now); math.Abs(got-500) > 25 {
		t.Errorf("500 a second come, it says %v", got)
	}
	if got, want := rate.At(now+arrival.Memory), rate.At(now)/math.E; math.Abs(got-want) > 1e-6 {
		t.Errorf("one time constant later %v, want %v", got, want)
	}
	if got, want := rate.At(now-time.Hour), rate.At(now); got != want {
		t.Errorf("on a clock that went back %v, want %v", got, want)
	}
	before := rate.At(now + time.Millisecond)
	rate.Add(now + time.Millisecond)
	rate.Withdraw(now+time.Millisecond, now+2*time.Millisecond)
	if got, want := rate.At(now+2*time.Millisecond), before*math.Exp(-1./50); math.Abs(got-want) > 1e-6 {
		t.Errorf("after an arrival that was none %v, want %v", got, want)
	}
	var none arrival.Rate
	none.Add(0)
	none.Withdraw(0, time.Hour)
	if none.Withdraw(0, time.Hour); none.At(time.Hour) != 0 {
		t.Errorf("what was taken back twice leaves %v, want 0", none.At(time.Hour))
	}
	rate.Add(now - time.Hour)
	if got := rate.At(now + time.Hour); got > 1e-9 {
		t.Errorf("an hour later %v, want nothing", got)
	}
}

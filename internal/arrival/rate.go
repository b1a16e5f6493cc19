// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package arrival

import (
	"math"
	"time"
)

// Memory is the time constant: an arrival counts for 1/e of its weight that much later. It is long enough to see what
// comes within a slow round trip, and short enough to forget a crowd soon after it has passed.
const Memory = 50 * time.Millisecond

// Rate is a rate of arrivals. The zero value has seen none.
type Rate struct {
	perSecond float64
	at        time.Duration
}

// Add notes an arrival at a point in time.
func (r *Rate) Add(now time.Duration) {
	r.perSecond = r.At(now) + 1/Memory.Seconds()
	r.at = max(r.at, now)
}

// Withdraw takes back an arrival that was noted at a point in time: it did not happen.
func (r *Rate) Withdraw(noted, now time.Duration) {
	left := math.Exp(-max(now-noted, 0).Seconds()/Memory.Seconds()) / Memory.Seconds()
	r.perSecond = max(r.At(now)-left, 0)
	r.at = max(r.at, now)
}

// At returns the arrivals a second, as seen at a point in time.
func (r *Rate) At(now time.Duration) float64 {
	if now <= r.at || r.perSecond == 0 {
		return r.perSecond
	}
	return r.perSecond * math.Exp(-(now-r.at).Seconds()/Memory.Seconds())
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"bytes"
	"math"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/extension"
)

// maxCountBytes is the longest body that may be a count. It leaves room for white space and forbids everything that
// only looks like one, such as a page of HTML.
const maxCountBytes = 64

// parseCount returns the count that the body of an answer is: decimal digits, with white space of JSON (RFC 8259
// section 2) around them or not, and nothing else. It never quotes the body.
func parseCount(body []byte) (int, error) {
	if len(body) > maxCountBytes {
		return 0, ErrNotCount
	}
	digits := bytes.Trim(body, " \t\r\n")
	if len(digits) == 0 {
		return 0, ErrNotCount
	}
	count := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, ErrNotCount
		}
		digit := int(c - '0')
		if count > (math.MaxInt-digit)/10 {
			return 0, ErrNotCount
		}
		count = 10*count + digit
	}
	return count, nil
}

// settle brings a count into range, whatever prober made it: what cannot be meant counts as not told, as if it came from a
// server. took is how long the answer took to come.
func (c *Count) settle(took time.Duration) {
	if c.RTT <= 0 || c.RTT > longestSetting {
		c.RTT = took
	}
	if c.Load == nil {
		return
	}
	load := *c.Load // which is the prober's
	if !(load.ArrivalRate >= 0 && load.ArrivalRate <= extension.MaxRate) {
		load.ArrivalRate = math.NaN()
	}
	if load.Capacity < 0 || load.Capacity > extension.MaxCapacity {
		load.Capacity = 0
	}
	c.Load = &load
}

// settle does the same for a reservation. An id that no server may have is of no use: it cannot be told on Connect.
func (r *Reservation) settle() {
	r.Count = max(r.Count, 0)
	if !extension.ValidID(r.ID) {
		r.ID = ""
	}
}

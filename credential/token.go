// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import "time"

// maxHeadStart is the most by which a token is renewed early, before the random part.
const maxHeadStart = time.Minute

// token is a token that was obtained. It does not change.
type token struct {
	header  hidden // the whole value of the metadata
	number  uint64 // counts the tokens of a source from 1
	renewAt time.Time
	expires time.Time
}

// newToken makes a token of an answer to a question asked at asked: its life may have begun then. random is from 0 to 1.
func newToken(header string, number uint64, asked time.Time, life time.Duration, random float64) *token {
	expires := asked.Add(life)
	return &token{header: hide(header), number: number, expires: expires, renewAt: expires.Add(-headStart(life, random))}
}

// headStart is how long before its expiry a token is renewed: 60 s or a quarter of its life, and up to a tenth of its life
// more, so that clients whose tokens expire together do not all ask together.
func headStart(life time.Duration, random float64) time.Duration {
	return min(maxHeadStart, life/4) + time.Duration(random*float64(life/10))
}

// serves says whether the token may still be sent. Only the monotonic clock counts: a wall clock that is set moves no
// expiry.
func (t *token) serves(now time.Time) bool { return t != nil && now.Before(t.expires) }

// due says whether the token is to be renewed: by either clock, since the monotonic one stands still while the machine is
// suspended. A renewal too many does no harm, as the token serves meanwhile.
func (t *token) due(now time.Time) bool {
	return !now.Before(t.renewAt) || !now.Round(0).Before(t.renewAt.Round(0))
}

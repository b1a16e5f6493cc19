// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"bytes"
	"math"
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

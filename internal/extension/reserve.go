// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package extension

import (
	"encoding/json"
	"strings"
)

// Of a request to reserve.
const (
	// Bound is the query parameter with the count below which the server is to grant it: a decimal integer from 0 to
	// MaxBound.
	Bound = "bound"
	// MaxBound is the largest bound there is.
	MaxBound = 1<<31 - 1
	// JSON is the type of the answer, in Accept too. Without it in Accept the answer is the stock one, and parameters do
	// not count.
	JSON = "application/json"
	// MaxAnswer is the length of an answer in bytes.
	MaxAnswer = 512
	// maxID is the length of an id.
	maxID = 64
)

// Answer is the answer to a request to reserve.
type Answer struct {
	// Granted says that the reservation was made. It is not when the count had reached the bound.
	Granted bool `json:"granted"`
	// ID is that of the reservation; without one where it was not made.
	ID string `json:"id,omitempty"`
	// Count is the server's count, with this reservation where it was made.
	Count int `json:"count"`
	// Bound is the one that was asked for; absent where there was none.
	Bound *int `json:"bound,omitempty"`
}

// ParseAnswer reads the answer of a server, and reports whether there is one that can be meant. Another server's JSON is
// none: it must say whether the reservation was granted, and the count, and have an id exactly when it was.
func ParseAnswer(body []byte) (Answer, bool) {
	var a struct {
		Granted *bool  `json:"granted"`
		ID      string `json:"id"`
		Count   *int   `json:"count"`
		Bound   *int   `json:"bound"`
	}
	if len(body) > MaxAnswer || json.Unmarshal(body, &a) != nil || a.Granted == nil || a.Count == nil {
		return Answer{}, false
	}
	if *a.Count < 0 || *a.Granted != ValidID(a.ID) {
		return Answer{}, false
	}
	return Answer{Granted: *a.Granted, ID: a.ID, Count: *a.Count, Bound: a.Bound}, true
}

// ValidID says whether an id can be one: a server's is put into the path of a request.
func ValidID(id string) bool {
	return id != "" && len(id) <= maxID && strings.IndexFunc(id, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && r != '-' && r != '_'
	}) < 0
}

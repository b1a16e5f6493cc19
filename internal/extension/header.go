// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package extension

import (
	"net/http"
	"strconv"
)

// Headers of the answer to GET /connections/count.
const (
	// ArrivalRate says how many clients a second come to the server: a decimal number.
	ArrivalRate = "Evenkeel-Arrival-Rate"
	// Capacity says how many clients the server takes in proportion to others: a decimal integer from 1 to MaxCapacity.
	Capacity = "Evenkeel-Capacity"
	// Draining is "true" when the server wants no more clients.
	Draining = "Evenkeel-Draining"
)

const (
	// MaxCapacity is the largest capacity there is.
	MaxCapacity = 1_000_000
	// MaxRate is more than any server sees.
	MaxRate = 1e6
	// maxNumber is the length of a number that is worth reading.
	maxNumber = 24
)

// FormatRate writes a rate for its header.
func FormatRate(rate float64) string { return strconv.FormatFloat(rate, 'f', 1, 64) }

// Rate returns the rate that a server told, and false when it told none that can be meant.
func Rate(header http.Header) (float64, bool) {
	text := header.Get(ArrivalRate)
	if text == "" || len(text) > maxNumber || !plain(text) {
		return 0, false
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || rate > MaxRate {
		return 0, false
	}
	return rate, true
}

// plain says that there are digits and a point only: no sign, no exponent, and nothing that is not a number.
func plain(text string) bool {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return true
}

// CapacityOf returns the capacity that a server told; 0 when it told none that can be meant.
func CapacityOf(header http.Header) int {
	capacity, err := strconv.ParseUint(header.Get(Capacity), 10, 32)
	if err != nil || capacity > MaxCapacity {
		return 0
	}
	return int(capacity)
}

// IsDraining says that the server wants no more clients.
func IsDraining(header http.Header) bool { return header.Get(Draining) == "true" }

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring

import "strings"

// longestGuess bounds the work of a guess. No known name is as long.
const longestGuess = 32

// closestOption returns the name of the known option that an unknown name was most likely meant to be, or "" when
// none is close. Case, hyphens and underscores do not count, and two letters or one in three may be wrong.
//
// The unknown name itself is never shown: it may be a piece of a secret that holds a raw & or ?.
func closestOption(name string) string {
	if len(name) > longestGuess {
		return ""
	}
	plain := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	best, bestDistance := "", longestGuess
	for id := range options {
		if optionID(id) == optionDisableTLS {
			continue // to suggest what is refused would be no help
		}
		known := options[id].name
		d := editDistance(plain, strings.ToLower(known))
		if d <= max(2, len(known)/3) && d < min(bestDistance, len(plain)) {
			best, bestDistance = known, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and changes of bytes that turn a into b (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

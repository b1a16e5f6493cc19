// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package connstring

// OptionNamesForTest returns the names of all known options.
func OptionNamesForTest() []string {
	names := make([]string, len(options))
	for i := range options {
		names[i] = options[i].name
	}
	return names
}

// CompactForTest renders the form that Unredacted falls back to when the usual one is too long.
func CompactForTest(c *ConnString) string { return c.render(compactForm) }

// EditDistanceForTest is the distance behind "did you mean".
func EditDistanceForTest(a, b string) int { return editDistance(a, b) }

// HintOptionsForTest is the hint that lists the known options.
const HintOptionsForTest = hintOptions

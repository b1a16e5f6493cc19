// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build race

package test_test

// raceEnabled says whether the tests were built with the race detector.
const raceEnabled = true

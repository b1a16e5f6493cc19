// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build race

package evenkeel_test

// slowness is by how much tests that measure time are slower than usual; it is set with the race detector, which makes
// everything slower.
const slowness = 4

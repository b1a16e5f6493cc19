// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build race

package main

// raced says that the race detector is on, which makes everything slower.
const raced = true

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package examples holds programs to begin with, one a folder. Its test builds and runs them, and compares them with
// what the README shows.
package examples

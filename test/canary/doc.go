// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package canary tests that no secret shows in anything that the library writes. Its secrets are marked words, which are
// looked for in logs, events, errors, traces and the renderings of every value, as they are and encoded.
package canary

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package policy holds the load-balancing policies of channels.
package policy

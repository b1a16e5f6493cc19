// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import "google.golang.org/grpc/balancer"

// Links returns the number of endpoints that a picker chooses from.
func Links(picker balancer.Picker) int {
	switch p := picker.(type) {
	case *roundRobin:
		return len(p.links)
	case *weightedRoundRobin:
		return len(p.links)
	case *random:
		return len(p.links)
	case *weightedRandom:
		return len(p.links)
	case *leastRequest:
		return len(p.links)
	case *weightedLeastRequest:
		return len(p.links)
	default:
		return 0
	}
}

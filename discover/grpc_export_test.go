// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"

	"google.golang.org/grpc/resolver"
)

// FromStateForTest makes endpoints of the state of a grpc-go resolver whose target is shown as "test:///x".
func FromStateForTest(state resolver.State) ([]Endpoint, error) { return fromState("test:///x", state) }

// ToStateForTest makes a state for grpc-go of endpoints, of which there is at least one.
func ToStateForTest(endpoints []Endpoint) resolver.State { return toState(endpoints) }

// ParseTargetForTest reads a target, and returns how errors show it.
func ParseTargetForTest(scheme, target string) (parsed resolver.Target, shown string, err error) {
	parsed, err = parseTarget(scheme, target)
	return parsed, shownTarget(parsed), err
}

// WatchForTest watches a source for a channel.
func WatchForTest(ctx context.Context, source Watcher, channel resolver.ClientConn) error {
	return (&built{source: source, cc: channel}).watch(ctx, source)
}

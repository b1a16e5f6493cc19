// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package policy

import (
	"slices"

	"google.golang.org/grpc/resolver"
)

type originKey struct{}

// origin is the endpoints of a state as their resolver named them.
type origin struct{ endpoints []resolver.Endpoint }

// WithOrigin returns the state with a copy of its endpoints that survives a proxy of the environment. On the way to one
// grpc-go replaces every address by that of the proxy, so that all endpoints look the same, and drops their attributes and
// the names their servers are to prove; their number and order stay.
func WithOrigin(state resolver.State) resolver.State {
	state.Attributes = state.Attributes.WithValue(originKey{}, &origin{endpoints: slices.Clone(state.Endpoints)})
	return state
}

// originOf returns the endpoints of WithOrigin, or those given when there are none that match them.
func originOf(state resolver.State, endpoints []resolver.Endpoint) []resolver.Endpoint {
	o, _ := state.Attributes.Value(originKey{}).(*origin)
	if o == nil || len(o.endpoints) != len(endpoints) {
		return endpoints
	}
	return o.endpoints
}

// restore gives an endpoint back what the way to a proxy has taken from it.
func restore(endpoint, from resolver.Endpoint) resolver.Endpoint {
	if endpoint.Attributes == nil {
		endpoint.Attributes = from.Attributes
	}
	if len(from.Addresses) == 0 || from.Addresses[0].ServerName == "" {
		return endpoint
	}
	endpoint.Addresses = slices.Clone(endpoint.Addresses)
	for i := range endpoint.Addresses {
		if endpoint.Addresses[i].ServerName == "" {
			endpoint.Addresses[i].ServerName = from.Addresses[0].ServerName
		}
	}
	return endpoint
}

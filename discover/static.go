// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package discover

import (
	"context"
	"errors"
	"strings"
)

// Static returns a resolver that always finds the given endpoints, in the order given. It copies them. A final dot of a
// host makes the endpoint absolute and is removed, so that it shows neither in TLS nor to people. Without endpoints
// every Resolve fails.
func Static(endpoints ...Endpoint) Resolver {
	fixed := cloneEndpoints(endpoints)
	for i := range fixed {
		if host, found := strings.CutSuffix(fixed[i].Host, "."); found && host != "" {
			fixed[i].Host = host
			fixed[i].Absolute = true
		}
	}
	return static(fixed)
}

type static []Endpoint

// Resolve implements Resolver.
func (s static) Resolve(ctx context.Context) ([]Endpoint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(s) == 0 {
		return nil, errors.New("resolve static endpoints: none were given")
	}
	return cloneEndpoints(s), nil
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/evenkeel-go/evenkeel/discover"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node returns an endpoint called by one letter.
func node(name string) discover.Endpoint {
	return discover.Endpoint{Host: name, Port: 1}
}

// nodes returns an endpoint for each letter of names.
func nodes(names string) []discover.Endpoint {
	var endpoints []discover.Endpoint
	for _, name := range names {
		endpoints = append(endpoints, node(string(name)))
	}
	return endpoints
}

// names is the inverse of nodes.
func names(endpoints []discover.Endpoint) string {
	text := ""
	for _, endpoint := range endpoints {
		text += endpoint.Host
	}
	return text
}

// weighted returns an endpoint for each weight, called n0, n1 and so on.
func weighted(weights ...uint16) []discover.Endpoint {
	endpoints := make([]discover.Endpoint, len(weights))
	for i, weight := range weights {
		endpoints[i] = discover.Endpoint{Host: fmt.Sprintf("n%d", i), Port: 1, Weight: weight}
	}
	return endpoints
}

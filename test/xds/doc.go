// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package xds shows that channels live beside xDS, and inside it. It has tests only, in a module of its own, since what
// they need of Envoy is large.
//
//	cd test/xds && go test ./...
//
// A control plane in the process of the test tells channels with xds:/// targets where to call. They are made with the
// dial options of package channel, whose policies take part in two ways: beside xDS, for the targets that are not of xDS;
// and inside it, as the policy within a locality (gRFC A52), which a control plane names in the load_balancing_policy of a
// cluster:
//
//	{"policies": [{"typed_extension_config": {"name": "wrr_locality", "typed_config": {
//	    "@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality",
//	    "endpoint_picking_policy": {"policies": [{"typed_extension_config": {"name": "evenkeel", "typed_config": {
//	        "@type": "type.googleapis.com/xds.type.v3.TypedStruct",
//	        "type_url": "type.googleapis.com/evenkeel_least_request",
//	        "value": {"drainTimeout": "30s"}}}}]}}}}]}
//
// # Configuration
//
// None. The control plane and the servers listen on free ports of 127.0.0.1.
//
// # Errors
//
// Tests fail with what was called and how often.
//
// # Concurrency
//
// Tests run in parallel, each with a control plane of its own.
//
// # Specification
//
// gRFC A27 (xDS), A28 (weighted clusters), A52 (custom policies).
package xds

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package channel

import "github.com/evenkeel-go/evenkeel/channel/internal/policy"

// grpc-go has no form of registration for a single channel, and its registry must not be written to later.
//
//nolint:gochecknoinits // see above; the names are ours alone
func init() { policy.Register() }

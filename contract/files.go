// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract

import (
	"google.golang.org/protobuf/reflect/protodesc"

	"github.com/evenkeel-go/evenkeel/contract/internal/registry"
)

// Files returns the descriptors of the contract, with those of protobuf's global registry behind them. gRPC reflection
// needs it, since the contract is not in the global registry. The descriptors are there once the generated packages are
// linked in. It is safe for concurrent use.
func Files() protodesc.Resolver { return registry.Files }

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package register

import (
	"google.golang.org/grpc/resolver"

	"github.com/evenkeel-go/evenkeel/channel"
)

//nolint:gochecknoinits // this package is for a blank import, and grpc-go's registry must not be written to later
func init() {
	// It lives as long as the process: there is nobody to close it.
	c, err := channel.New(channel.Config{})
	if err != nil {
		return // not reached: the defaults are sound
	}
	for _, b := range c.Builders() {
		resolver.Register(b)
	}
}

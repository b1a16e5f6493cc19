// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build !linux

package server

import "net"

// setUserTimeout does nothing here: only Linux has the option. HTTP/2 pings find a vanished peer a little later.
func setUserTimeout(net.Conn) error { return nil }

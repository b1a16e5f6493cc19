// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package dial

import (
	"context"
	"net"
	"net/netip"
)

// WithConnectForTest returns a dialer that connects through connect.
func (d Dialer) WithConnectForTest(connect func(context.Context, netip.AddrPort) (net.Conn, error)) Dialer {
	d.connect = connect
	return d
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance_test

import (
	"net"
	"net/netip"
	"testing"
)

// listen listens on a free port of a loopback address.
func listen(t *testing.T, host string) (net.Listener, netip.AddrPort) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener, listener.Addr().(*net.TCPAddr).AddrPort()
}

// refusing returns a loopback address on which nobody listens.
func refusing(t *testing.T) netip.AddrPort {
	t.Helper()
	listener, addr := listen(t, "127.0.0.1")
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return addr
}

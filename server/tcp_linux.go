// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unacknowledgedWithin is how long sent bytes may stay unacknowledged before the kernel gives the connection up
// (TCP_USER_TIMEOUT, RFC 5482).
const unacknowledgedWithin = 20 * time.Second

// setUserTimeout makes the kernel give up a connection whose peer has vanished while something is being sent to it. grpc-go
// does the same, but only on a connection that it sees as TCP itself.
func setUserTimeout(c net.Conn) error {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return nil // not a socket, such as one in a test's memory
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledgedWithin.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}

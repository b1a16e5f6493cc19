// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest

import (
	"errors"
	"net"
	"testing"
	"time"
)

// The server bounds its writes: what it set must not end the connection under whoever has it next.
func TestAConnectionIsHandedOverWithoutTheDeadlinesOfTheServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peer, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := &faultConn{TCPConn: accepted.(*net.TCPConn)}
	handed := false
	c.divert(func() { handed = true })
	if err := errors.Join(c.SetDeadline(time.Unix(1, 0)), c.Close()); err != nil || !handed {
		t.Fatalf("close: %v, handed over: %t", err, handed)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Errorf("write: %v, want no deadline", err)
	}
	if err := errors.Join(c.TCPConn.Close(), peer.Close(), listener.Close()); err != nil {
		t.Error(err)
	}
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeeltest_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evenkeel-go/evenkeel/evenkeeltest"
)

// echo starts a server that sends back what it gets, and ends when its client has.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// through dials a relay; the connection has a deadline.
func through(t *testing.T, r *evenkeeltest.Relay) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// round sends a text and returns how long it took to come back.
func round(t *testing.T, c net.Conn, text string) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatalf("write: %v", err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("read: got %q, %v, want %q", got, err, text)
	}
	return time.Since(began)
}

// hears says whether anything comes within a short time.
func hears(t *testing.T, c net.Conn) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(make([]byte, 1))
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return err == nil
}

func TestRelayForwardsAndDelays(t *testing.T) {
	t.Parallel()
	r := evenkeeltest.StartRelay(t, echo(t))
	c := through(t, r)
	round(t, c, "hello")
	r.SetDelay(20 * time.Millisecond)
	if d := round(t, c, "hello"); d < 40*time.Millisecond {
		t.Errorf("there and back took %v, want at least 40ms", d)
	}
	r.SetDelay(0)
	r.Conns()[0].SetDelay(30 * time.Millisecond)
	if d := round(t, c, "hello"); d < 60*time.Millisecond {
		t.Errorf("there and back took %v on the slow connection, want at least 60ms", d)
	}
	other := through(t, r)
	round(t, other, "hello")
	r.Conns()[0].SetDelay(0)
	// A delay does not slow down: a megabyte takes one delay, not one for each piece.
	large := bytes.Repeat([]byte("x"), 1<<20)
	received := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(c, make([]byte, len(large)))
		received <- err
	}()
	if _, err := c.Write(large); err != nil {
		t.Fatal(err)
	}
	if err := <-received; err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: got %d bytes, %v, want EOF", n, err)
	}
}

func TestRelayStallsAndResumes(t *testing.T) {
	t.Parallel()
	r := evenkeeltest.StartRelay(t, echo(t))
	c := through(t, r)
	round(t, c, "hello")
	one := r.Conns()[0]
	for name, step := range map[string]struct{ stall, resume func() }{
		"both":            {func() { r.Stall() }, r.Resume},
		"to the server":   {func() { r.Stall(evenkeeltest.ToServer) }, r.Resume},
		"to the client":   {func() { r.Stall(evenkeeltest.ToClient) }, r.Resume},
		"one connection":  {func() { one.Stall() }, one.Resume},
		"one, one way":    {func() { one.Stall(evenkeeltest.ToClient) }, one.Resume},
		"a new one, both": {func() { r.Stall(); through(t, r) }, r.Resume},
	} {
		step.stall()
		if _, err := io.WriteString(c, "x"); err != nil {
			t.Fatal(err)
		}
		if hears(t, c) {
			t.Errorf("%s: it is stalled, yet an answer came", name)
		}
		step.resume()
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Errorf("%s: after resuming: %v", name, err)
		}
	}
	one.Stall()
	round(t, through(t, r), "others go on")
}

func TestRelayCutsWithFINOrRST(t *testing.T) {
	t.Parallel()
	r := evenkeeltest.StartRelay(t, echo(t))
	cut, reset, spared := through(t, r), through(t, r), through(t, r)
	for _, c := range []net.Conn{cut, reset, spared} {
		round(t, c, "hello")
	}
	for _, c := range r.Conns() {
		switch c.ClientAddr().String() {
		case cut.LocalAddr().String():
			c.Cut()
		case reset.LocalAddr().String():
			c.Reset()
		}
	}
	if _, err := cut.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("cut: got %v, want EOF", err)
	}
	if _, err := reset.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset: got %v, want a reset", err)
	}
	round(t, spared, "hello")
	r.Reset()
	if _, err := spared.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("all reset: got %v, want a reset", err)
	}
	again := through(t, r)
	round(t, again, "hello")
	r.Cut()
	if _, err := again.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("all cut: got %v, want EOF", err)
	}
}

func TestRelayToNobodyResets(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", evenkeeltest.StartRelay(t, target).Addr())
	if err == nil { // it was accepted, and not reset before the dialer looked again
		_, err = c.Read(make([]byte, 1))
		_ = c.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

func TestRelayClosesWhileStalled(t *testing.T) {
	t.Parallel()
	r, err := evenkeeltest.NewRelay(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	c := through(t, r)
	round(t, c, "hello")
	r.Stall()
	if err := c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err = error(nil); err == nil; { // until every buffer on the way is full
		_, err = c.Write(make([]byte, 64<<10))
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if len(r.Conns()) != 0 {
		t.Error("connections are left after Close")
	}
	if _, err := net.Dial("tcp", r.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after Close: got %v, want refused", err)
	}
}

func TestClusterBehindRelays(t *testing.T) {
	t.Parallel()
	c := evenkeeltest.Start(t, evenkeeltest.Config{Servers: 2, Relays: true})
	s := c.Servers[0]
	if got, want := s.Addr(), s.Relay().Addr(); got != want {
		t.Errorf("address: got %s, want the relay's %s", got, want)
	}
	stream := connect(t, c, s, "one")
	s.Relay().Stall(evenkeeltest.ToClient)
	received := make(chan struct{})
	go func() {
		defer close(received)
		_, _ = stream.Recv()
	}()
	s.Relay().Resume()
	<-received
	relay := s.Relay()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if s.Relay() != relay {
		t.Error("the relay is another one after a restart")
	}
	connect(t, c, s, "two")
	if err := c.RemoveServer(s); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", relay.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial the relay of a removed server: got %v, want refused", err)
	}
}

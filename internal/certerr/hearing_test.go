// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package certerr_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/internal/certerr"
	"github.com/evenkeel-go/evenkeel/internal/memnet"
)

// resetConn is a connection that its peer has closed on what is on its way.
type resetConn struct {
	net.Conn
	err error
}

func (c resetConn) Write([]byte) (int, error) { return 0, c.err }

func TestTheLastWordOutlivesAFailedWriteAndClose(t *testing.T) {
	t.Parallel()
	near, far := memnet.Pipe()
	if _, err := far.Write([]byte("last word")); err != nil {
		t.Fatal(err)
	}
	if err := far.Close(); err != nil {
		t.Fatal(err)
	}
	conn := certerr.HearOut(resetConn{near, &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}})
	if _, err := conn.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write: got %v, want %v", err, syscall.EPIPE)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if !conn.Wait() {
		t.Error("closed, but not at its end")
	}
	if heard, err := io.ReadAll(conn); err != nil || string(heard) != "last word" {
		t.Errorf("heard %q, %v", heard, err)
	}
}

func TestAFailedWriteLeavesAReadUnderWayItsWord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := memnet.Pipe()
		conn := certerr.HearOut(resetConn{near, syscall.ECONNRESET})
		var reader sync.WaitGroup
		reader.Go(func() {
			if heard, err := io.ReadAll(conn); err != nil || string(heard) != "last word" {
				t.Errorf("heard %q, %v", heard, err)
			}
		})
		synctest.Wait()
		if _, err := far.Write([]byte("last word")); err != nil {
			t.Fatal(err)
		}
		if err := far.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write: got %v, want %v", err, syscall.ECONNRESET)
		}
		reader.Wait()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAFailedWriteWaitsForNobodyForLong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want time.Duration
		over bool
	}{
		"closed by the peer": {syscall.ECONNRESET, 250 * time.Millisecond, true},
		"closed here":        {net.ErrClosed, 0, false},
		"out of time":        {os.ErrDeadlineExceeded, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near, far := memnet.Pipe()
				conn := certerr.HearOut(resetConn{near, test.err})
				// A read that is out of time is not the end.
				if err := conn.SetReadDeadline(time.Now()); err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("read: got %v, want %v", err, os.ErrDeadlineExceeded)
				}
				begin := time.Now()
				if _, err := conn.Write([]byte("x")); !errors.Is(err, test.err) {
					t.Errorf("write: got %v, want %v", err, test.err)
				}
				if took := time.Since(begin); took != test.want {
					t.Errorf("took %v, want %v", took, test.want)
				}
				if got := conn.Wait(); got != test.over {
					t.Errorf("at its end: got %t, want %t", got, test.over)
				}
				if err := errors.Join(conn.Close(), far.Close()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

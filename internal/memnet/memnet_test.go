// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/evenkeel-go/evenkeel/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatIsWrittenArrivesInOrderAndOutlivesClose(t *testing.T) {
	t.Parallel()
	near, far := memnet.Pipe()
	sent := bytes.Repeat([]byte("0123456789"), 100_000) // more than may be under way
	var writer sync.WaitGroup
	writer.Go(func() {
		if n, err := near.Write(sent); n != len(sent) || err != nil {
			t.Errorf("write: got %d, %v, want all", n, err)
		}
		if err := near.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	got, err := io.ReadAll(far)
	writer.Wait()
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("read: got %d bytes, %v, want the %d that were written", len(got), err, len(sent))
	}
	if _, err := far.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write to who has left: got %v, want %v", err, io.ErrClosedPipe)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: got %v, want %v", err, net.ErrClosed)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after Close: got %v, want %v", err, net.ErrClosed)
	}
}

func TestDeadlinesEndReadsAndWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := memnet.Pipe()
		full := make([]byte, 1<<20)
		begin := time.Now()
		for i, do := range []func() error{
			func() error { _, err := near.Read(full); return err },
			func() error { _, err := near.Write(full); return err },
		} {
			// An earlier deadline that was put off does not count.
			if err := errors.Join(near.SetDeadline(time.Now().Add(time.Millisecond)), near.SetDeadline(time.Now().Add(time.Second))); err != nil {
				t.Fatalf("set a deadline: %v", err)
			}
			if err := do(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("operation %d: got %v, want %v", i, err, os.ErrDeadlineExceeded)
			}
		}
		if got, want := time.Since(begin), 2*time.Second; got != want {
			t.Errorf("took %v, want %v", got, want)
		}
		if err := far.SetReadDeadline(time.Now()); err != nil {
			t.Fatalf("set a deadline: %v", err)
		}
		if _, err := far.Read(full); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read past the deadline: got %v, want %v", err, os.ErrDeadlineExceeded)
		}
		if err := far.SetReadDeadline(time.Time{}); err != nil {
			t.Fatalf("take the deadline back: %v", err)
		}
		if n, err := far.Read(full); n == 0 || err != nil {
			t.Errorf("read without a deadline: got %d, %v, want what was written", n, err)
		}
		if err := errors.Join(near.Close(), far.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func TestListenerEndsDialsAndAccepts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := memnet.Listen()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := listener.DialContext(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial while nobody accepts: got %v, want %v", err, context.DeadlineExceeded)
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("accept: got %v, want %v", err, net.ErrClosed)
			}
		})
		synctest.Wait()
		if err := errors.Join(listener.Close(), listener.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
		waiting.Wait()
		if _, err := listener.DialContext(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial: got %v, want %v", err, net.ErrClosed)
		}
	})
}

// The race detector of Go 1.26 crashes where timers that are due at once start on several goroutines of a bubble.
func TestManyConnectionsAtOnceLeaveTheRaceDetectorAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ends sync.WaitGroup
		for range 50 {
			ends.Go(func() {
				for range 100 {
					near, far := memnet.Pipe()
					if err := errors.Join(near.SetDeadline(time.Now()), near.Close(), far.Close()); err != nil {
						t.Errorf("close: %v", err)
					}
				}
			})
		}
		ends.Wait()
	})
}

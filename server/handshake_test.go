// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel-go/evenkeel/server"
)

// dialSilent connects and says nothing; ended is closed when the server has closed the connection.
func dialSilent(t *testing.T, addr string, from string) (ended <-chan struct{}) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("dial from %s: %v", from, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = conn.Read(make([]byte, 1)) // nothing is ever sent: this ends with the connection
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return done
}

func waitEnded(t *testing.T, what string, ended <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		t.Errorf("%s: still open after %v, want it closed", what, patience)
	}
}

func TestHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config server.Config
		from   string // of those that stay silent, the first one more than others
		served bool   // whether another address is still served
	}{
		{"for one address", server.Config{MaxHandshakesPerAddress: 2}, "127.0.0.1", true},
		{"in all", server.Config{MaxHandshakes: 2}, "127.0.0.1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS != "linux" {
				t.Skip("only Linux has all of 127.0.0.0/8 without being asked")
			}
			tt.config.HandshakeTimeout = time.Hour
			f := serveTCP(t, tt.config)
			first, second := dialSilent(t, f.addr, "127.0.0.1"), dialSilent(t, f.addr, "127.0.0.1")
			waitEnded(t, "the one too many", dialSilent(t, f.addr, "127.0.0.1"))
			other, err := tls.DialWithDialer(&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}, "tcp", f.addr,
				&tls.Config{RootCAs: f.roots, ServerName: "localhost"})
			if (err == nil) != tt.served {
				t.Errorf("another address: got %v, want served: %v", err, tt.served)
			}
			if err == nil {
				_ = other.Close()
			}
			select {
			case <-first:
				t.Error("first silent connection: got it closed, want it open")
			case <-second:
				t.Error("second silent connection: got it closed, want it open")
			default:
			}
		})
	}
}

func TestPlaceOfAHandshakeIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := serveMemory(t, server.Config{MaxHandshakes: 1, MaxHandshakesPerAddress: 1})
		silent, err := f.dial(t.Context(), "", "")
		if err != nil {
			t.Fatalf("dial: %v", err)
		}
		defer func() { _ = silent.Close() }()
		synctest.Wait()
		client := f.httpClient(t, 2)
		if response, err := client.Get(f.url("/health")); err == nil {
			_ = response.Body.Close() // of no interest
			t.Error("beside the silent connection: got an answer, want none")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for range 3 {
			if got := do(t, client, "GET", f.url("/health"), nil).StatusCode; got != http.StatusOK {
				t.Errorf("after its time: got %d, want 200", got)
			}
			client.CloseIdleConnections()
			synctest.Wait()
		}
	})
}

func TestSilentAfterTheHandshake(t *testing.T) {
	t.Parallel()
	for _, offer := range [][]string{{"h2"}, {"http/1.1"}, {"h2", "http/1.1"}, nil} {
		t.Run(strings.Join(offer, " "), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := serveMemory(t, server.Config{})
				raw, err := f.dial(t.Context(), "", "")
				if err != nil {
					t.Fatalf("dial: %v", err)
				}
				conn := tls.Client(raw, &tls.Config{RootCAs: f.roots, ServerName: "localhost", NextProtos: offer})
				defer func() { _ = conn.Close() }()
				begin := time.Now()
				if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("silent: got %v, want the end of the connection", err)
				}
				if took := time.Since(begin); took > 15*time.Second {
					t.Errorf("silent: closed after %v, want 10 s or a little more", took)
				}
			})
		})
	}
}

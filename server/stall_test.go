// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evenkeel-go/evenkeel/contract/clientspb"
	"github.com/evenkeel-go/evenkeel/server"
)

// deafClient speaks HTTP/2, answers pings and leaves the server no room to send anything on its stream: its windows are
// empty and stay so.
type deafClient struct {
	conn   net.Conn
	framer *http2.Framer
	ended  chan struct{} // closed when the server has closed the connection
}

// dialDeaf connects such a client.
func dialDeaf(t *testing.T, f *fixture) *deafClient {
	t.Helper()
	conn, err := f.dial(t.Context(), "tcp", f.addr)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	if f.roots != nil {
		conn = tls.Client(conn, &tls.Config{RootCAs: f.roots, ServerName: "localhost", NextProtos: []string{"h2"}})
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatalf("write the preface: %v", err)
	}
	d := &deafClient{conn: conn, framer: http2.NewFramer(conn, conn), ended: make(chan struct{})}
	if err := d.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatalf("write the settings: %v", err)
	}
	return d
}

// call opens a stream with a request on it and reads what comes, without ever making room.
func (d *deafClient) call(t *testing.T, path string, request proto.Message) {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{
		{":method", "POST"},
		{":scheme", "https"},
		{":path", path},
		{":authority", "localhost"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatalf("encode the headers: %v", err)
		}
	}
	body, err := proto.Marshal(request)
	if err != nil {
		t.Fatalf("encode the request: %v", err)
	}
	message := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
	err = d.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
	if err == nil {
		err = d.framer.WriteData(1, true, append(message, body...))
	}
	if err != nil {
		t.Fatalf("write the request: %v", err)
	}
	go func() {
		defer close(d.ended)
		for {
			frame, err := d.framer.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = d.framer.WriteSettingsAck() // the next read tells whether the connection is good
				}
			case *http2.PingFrame:
				_ = d.framer.WritePing(true, frame.Data) // as above
			}
		}
	}()
	t.Cleanup(func() {
		_ = d.conn.Close() // closed by the server
		<-d.ended
	})
}

func TestClientThatNeverReadsIsCutOff(t *testing.T) {
	t.Parallel()
	longID := strings.Repeat("x", 128)
	tests := []struct {
		name    string
		method  string
		request proto.Message
	}{
		{"a client that answers", clientspb.ConnectionService_Connect_FullMethodName, named(longID)},
		{"a client that is evicted meanwhile", clientspb.ConnectionService_Connect_FullMethodName, named(longID)},
		{"an observer", clientspb.ConnectionService_ObserveConnectedClients_FullMethodName, &emptypb.Empty{}},
	}
	for _, transport := range transports {
		for _, tt := range tests {
			t.Run(tt.name+" on "+transport.name, func(t *testing.T) {
				t.Parallel()
				config := transport.config
				// The buffers in between take some hundred messages.
				config.Registry = server.NewRegistry(server.RegistryConfig{
					KeepAliveInterval: time.Millisecond, ObserveInterval: time.Millisecond,
					SendTimeout: 200 * time.Millisecond, StaleAfter: time.Second,
				})
				f := serveTCP(t, config)
				d := dialDeaf(t, f)
				d.call(t, tt.method, tt.request)
				other := 0
				eventually(t, "the end of the connection", func() bool {
					if tt.name == "a client that answers" {
						f.Registry().KeepAliveForTest(longID)
					}
					if tt.method == clientspb.ConnectionService_ObserveConnectedClients_FullMethodName {
						other++
						f.Registry().ConnectForTest(fmt.Sprint(longID[:100], other), "192.0.2.1:1") // something to be told of
					}
					select {
					case <-d.ended:
						return true
					default:
						return false
					}
				})
				if other == 0 {
					eventually(t, "nobody connected", func() bool { return f.Registry().Count() == 0 })
				}
				// The handler has ended with the connection: the observer's place is free.
				eventually(t, "no observers", func() bool { return f.Registry().Stats().Observers == 0 })
				if got := f.Registry().Stats(); got.StalledStreams+got.EvictedClients == 0 {
					t.Errorf("stats: got %+v, want it told why", got)
				}
				f.Registry().Close()
			})
		}
	}
}

// A client may be told nothing and leave all the same: its send is not waited for.
func TestClientThatNeverReadsCanLeave(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			config := transport.config
			config.Registry = server.NewRegistry(server.RegistryConfig{KeepAliveInterval: time.Millisecond, SendTimeout: time.Hour})
			f := serveTCP(t, config)
			d := dialDeaf(t, f)
			request := named(strings.Repeat("x", 128))
			request.IsRunningWithDebugger = true
			d.call(t, clientspb.ConnectionService_Connect_FullMethodName, request)
			eventually(t, "its registration", func() bool { return f.Registry().Count() == 1 })
			if err := d.conn.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			eventually(t, "its end", func() bool { return f.Registry().Count() == 0 })
		})
	}
}

// A client that asks over and over and takes in no answer fills the buffers in between, and is cut off then.
func TestHTTPClientThatNeverReadsIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := serveMemory(t, server.Config{Plaintext: true})
		conn, err := f.dial(t.Context(), "tcp", f.addr)
		if err != nil {
			t.Fatalf("dial: %v", err)
		}
		defer func() { _ = conn.Close() }()
		begin := time.Now()
		for err == nil {
			_, err = io.WriteString(conn, "GET /connections/count HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		if took := time.Since(begin); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("cut off after %v, want 20 s at most", took)
		}
	})
}

// On HTTP/2 the buffers in between are no obstacle to an empty window.
func TestHTTP2ClientWithoutRoomForAnAnswerHoldsNoHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := serveMemory(t, server.Config{Plaintext: true, MaxRequestsPerAddress: 1})
		d := dialDeaf(t, f)
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/connections/count"}, {":authority", "x"}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				t.Fatalf("encode the headers: %v", err)
			}
		}
		if err := d.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}); err != nil {
			t.Fatalf("write the request: %v", err)
		}
		defer func() { _ = d.conn.Close() }()
		for {
			frame, err := d.framer.ReadFrame()
			if err != nil {
				t.Fatalf("read: %v", err)
			}
			if reset, ok := frame.(*http2.RSTStreamFrame); ok && reset.StreamID == 1 {
				break // it has waited for room
			}
		}
		// The one place is free again.
		client := f.httpClient(t, 1)
		eventually(t, "an answer to somebody else", func() bool {
			return do(t, client, http.MethodGet, f.url("/connections/count"), nil).StatusCode == http.StatusOK
		})
	})
}

// An evicted client that is not deaf may come back on the connection that it has.
func TestEvictedClientKeepsItsConnectionWhenItComesBack(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			config := transport.config
			config.HandshakeTimeout = time.Second
			config.Registry = server.NewRegistry(server.RegistryConfig{StaleAfter: 50 * time.Millisecond, SendTimeout: 200 * time.Millisecond})
			f := serveTCP(t, config)
			counted, dials := countingDialer(f)
			conn := f.grpcConn(t, counted)
			if err := connect(t, conn, named("one")).wait(); err == nil {
				t.Fatal("stream: got no error, want it evicted")
			}
			back := named("two")
			back.IsRunningWithDebugger = true
			connect(t, conn, back)
			// A silent connection made now is cut when the time of the evicted one is over by far.
			waitEnded(t, "a silent connection", dialSilent(t, f.addr, "127.0.0.1"))
			if err := askHealth(t, conn); err != nil || *dials != 1 {
				t.Errorf("call: got %v on connection %d, want none on the first", err, *dials)
			}
			f.Registry().Close()
		})
	}
}

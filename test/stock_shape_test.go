// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

//go:build endtoend

package test_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// stockProbeLimit is how long a stock client waits for a count, and for a reservation.
const stockProbeLimit = 2 * time.Second

// stockShape is what one stock client puts on the wire where the clients differ.
type stockShape struct {
	name string

	// Probes and reservations.
	parallel     bool     // asks for all counts at once rather than one after the other
	alpn         []string // of the probes
	http2        bool     // asks over HTTP/2
	get, post    []string // headers over HTTP/1.1 besides Host, as they are written
	body         string   // of a reservation
	ownConn      bool     // reserves on a connection of its own
	reserveBlind bool     // reserves also when no server has answered its probe
	selections   int      // per start; later it is one

	// Session.
	clientType string
	hexID      bool // 16 hex digits rather than a GUID
	asks       bool // calls GetVersionInfo before Connect
	firstIsUp  bool // up with the first keep-alive rather than with its answer
	noPath     bool // names no path of its process
	userAgent  string
	metadata   []string // of every call
	retryAfter time.Duration
}

// stockShapes are the five stock clients, one of them on two platforms. What was not observed is said.
func stockShapes() []stockShape {
	const correlation = "x-correlation-id"
	guid := "6f1d3b1e-55a7-4a3f-9a0e-3c1f5b0c7d21"
	node := []string{"accept: */*", "accept-language: *", "sec-fetch-mode: cors", "user-agent: node", "accept-encoding: br, gzip, deflate"}
	typescript := stockShape{
		name: "TypeScript", parallel: true, alpn: []string{"http/1.1"}, ownConn: true, reserveBlind: true, selections: 2,
		get: append([]string{"connection: keep-alive"}, node...), post: append([]string{"connection: keep-alive", "content-length: 0"}, node...),
		clientType: "TypeScript", asks: true, userAgent: "grpc-node-js/1.14.4",
		metadata: []string{"authorization", "Bearer opaque", "api-key", "key"},
	}
	newNode := typescript // Node 26
	newNode.name, newNode.alpn, newNode.http2 = "TypeScript over HTTP/2", []string{"http/1.1", "h2"}, true
	return []stockShape{
		typescript, newNode,
		{
			name: "Elixir", body: "{}", selections: 1,
			get:        []string{"content-length: 0", "te:", "connection: keep-alive"},
			post:       []string{"content-type: application/json", "content-length: 2", "te:", "connection: keep-alive"},
			clientType: "Elixir", hexID: true, firstIsUp: true, noPath: true, userAgent: "grpc-elixir",
			metadata: []string{"api-key", "key"}, retryAfter: 3 * time.Second,
		},
		{
			name: "Go", parallel: true, reserveBlind: true, selections: 1,
			get:        []string{"User-Agent: Go-http-client/1.1", "Accept-Encoding: gzip"},
			post:       []string{"User-Agent: Go-http-client/1.1", "Content-Length: 0", "Accept-Encoding: gzip"},
			clientType: "Go", metadata: []string{"authorization", "Bearer opaque", correlation, guid}, retryAfter: time.Second,
		},
		{ // its version of HTTP was not observed
			name: ".NET", parallel: true, reserveBlind: true, selections: 1, post: []string{"Content-Length: 0"}, ownConn: true,
			clientType: ".NET", firstIsUp: true, userAgent: "grpc-dotnet/2.80.0",
			metadata: []string{"authorization", "Bearer opaque", correlation, guid}, retryAfter: time.Second,
		},
		{ // its version of HTTP was not observed
			name: "Kotlin", parallel: true, alpn: []string{"h2", "http/1.1"}, http2: true, reserveBlind: true, selections: 1,
			clientType: "Kotlin", userAgent: "grpc-java-netty/1.80.0",
			metadata: []string{"authorization", "Bearer opaque", correlation, guid}, retryAfter: time.Second,
		},
	}
}

// stockHTTP asks one server in the way of a shape. It is used by one goroutine at a time.
type stockHTTP struct {
	shape  stockShape
	addr   string
	dialer *tls.Dialer
	conn   net.Conn // over HTTP/1.1; nil when there is none
	reader *bufio.Reader
	client *http.Client // over HTTP/2
}

func newStockHTTP(shape stockShape, addr, from string) *stockHTTP {
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: shape.alpn} //nolint:gosec // a server of this test
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // so that both are offered, as the shapes have it: to a server, h2 alone means gRPC
	protocols.SetHTTP2(true)
	return &stockHTTP{
		shape: shape, addr: addr, dialer: &tls.Dialer{NetDialer: dialer, Config: config},
		client: &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: config.Clone(), Protocols: protocols}},
	}
}

// close closes its connections. Their servers may have done so before.
func (h *stockHTTP) close() {
	if h.conn != nil {
		_ = h.conn.Close()
		h.conn = nil
	}
	h.client.CloseIdleConnections()
}

// count asks how busy the server is.
func (h *stockHTTP) count(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, stockProbeLimit)
	defer cancel()
	status, body, err := h.ask(ctx, http.MethodGet, "/connections/count", h.shape.get, "")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(body, 10, 31)
	if status != http.StatusOK || err != nil {
		return 0, fmt.Errorf("count of %s is status %d with %q", h.addr, status, body)
	}
	return int(n), nil
}

// abandon asks how busy the server is and does not wait for the answer.
func (h *stockHTTP) abandon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stockProbeLimit)
	defer cancel()
	if err := h.open(ctx); err != nil {
		return err
	}
	err := h.write(http.MethodGet, "/connections/count", h.shape.get, "")
	h.close()
	return err
}

// reserve says that a client is about to come. Stock clients ignore what comes of it; this one does not.
func (h *stockHTTP) reserve(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stockProbeLimit)
	defer cancel()
	if h.shape.ownConn && h.conn != nil {
		h.close()
	}
	status, body, err := h.ask(ctx, http.MethodPost, "/connections/reserve", h.shape.post, h.shape.body)
	if err == nil && (status != http.StatusOK || body != "") {
		err = fmt.Errorf("reservation at %s is status %d with %q", h.addr, status, body)
	}
	return err
}

// ask makes a request, over HTTP/1.1 on a connection that stays open.
func (h *stockHTTP) ask(ctx context.Context, method, path string, headers []string, body string) (status int, answer string, err error) {
	if h.shape.http2 {
		return h.askHTTP2(ctx, method, path, body)
	}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if err := h.open(ctx); err != nil {
		return 0, "", err
	}
	if err := h.write(method, path, headers, body); err != nil {
		return 0, "", err
	}
	response, err := http.ReadResponse(h.reader, nil)
	if err != nil {
		return 0, "", err
	}
	content, err := io.ReadAll(response.Body)
	if response.Close {
		h.close() // the server's wish
	}
	return response.StatusCode, string(content), errors.Join(err, response.Body.Close())
}

// askHTTP2 makes a request over HTTP/2, which the server has to choose where it is offered.
func (h *stockHTTP) askHTTP2(ctx context.Context, method, path, body string) (status int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "https://"+h.addr+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if path == tokenPath {
		request.Header.Set("Content-Type", formType)
	}
	response, err := h.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	content, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err == nil && response.ProtoMajor != 2 {
		err = fmt.Errorf("%s answers over %s, want HTTP/2", h.addr, response.Proto)
	}
	return response.StatusCode, string(content), err
}

const (
	tokenPath = "/connect/token"
	formType  = "application/x-www-form-urlencoded"
)

// token asks for a token with the credentials in the body, as all of them do.
func (h *stockHTTP) token(ctx context.Context, id, secret string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stockProbeLimit)
	defer cancel()
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}}.Encode()
	headers := []string{"content-type: " + formType, "content-length: " + strconv.Itoa(len(form))}
	status, body, err := h.ask(ctx, http.MethodPost, tokenPath, headers, form)
	if err != nil {
		return "", err
	}
	var answer struct {
		Token   string `json:"access_token"`
		Type    string `json:"token_type"`
		Expires int    `json:"expires_in"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || answer.Type != "Bearer" || answer.Expires < 1 {
		return "", fmt.Errorf("%s answers a request for a token with status %d, type %q and %d s", h.addr, status, answer.Type, answer.Expires)
	}
	return answer.Token, nil
}

// open sees to it that there is a connection.
func (h *stockHTTP) open(ctx context.Context) error {
	if h.conn == nil {
		conn, err := h.dialer.DialContext(ctx, "tcp", h.addr)
		if err != nil {
			return err
		}
		h.conn, h.reader = conn, bufio.NewReader(conn)
	}
	deadline, _ := ctx.Deadline()
	return h.conn.SetDeadline(deadline)
}

// write writes a request by hand: net/http neither leaves out what some clients leave out nor says what they say.
func (h *stockHTTP) write(method, path string, headers []string, body string) error {
	var b strings.Builder
	b.WriteString(method + " " + path + " HTTP/1.1\r\nhost: " + h.addr + "\r\n")
	for _, header := range headers {
		b.WriteString(header + "\r\n")
	}
	b.WriteString("\r\n" + body)
	_, err := h.conn.Write([]byte(b.String()))
	return err
}

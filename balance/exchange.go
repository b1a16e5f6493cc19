// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/evenkeel-go/evenkeel/discover"
)

// reply is the answer to a request. Only addr is set where a connection brought none.
type reply struct {
	addr   netip.AddrPort
	status int
	body   []byte // at most one byte longer than a count can be
	rtt    time.Duration
	proto  string
	tls    *tls.ConnectionState
}

// exchange sends one request to the endpoint and returns the answer. An error is a *ProbeError; the address of the reply
// is set beside it where there was a connection.
func (p *HTTPProber) exchange(ctx context.Context, op string, endpoint discover.Endpoint) (reply, error) {
	answer, err := p.call(ctx, op, endpoint)
	if err != nil {
		return reply{addr: answer.addr}, &ProbeError{Endpoint: endpoint, Op: op, Addr: answer.addr, Err: err}
	}
	return answer, nil
}

func (p *HTTPProber) call(ctx context.Context, op string, endpoint discover.Endpoint) (reply, error) {
	ctx, end, err := p.begin(ctx)
	if err != nil {
		return reply{}, err
	}
	defer end()
	// The request is bound to the name, the connection to an address: the addresses of the name, as they are now.
	request := p.request(ctx, op, endpoint)
	endpoint.Addrs, err = p.addresses(ctx, endpoint)
	if err != nil {
		return reply{}, connectError(ctx, err)
	}
	t, err := p.pool.enter(ctx, endpoint)
	if err != nil {
		return reply{}, err
	}
	defer p.pool.leave(t)
	answer, stale, err := p.send(ctx, request, t, endpoint)
	if err != nil && stale && request.Method == http.MethodGet {
		// The server had closed the connection while it was idle. Asking again is harmless; reserving again is not.
		answer, _, err = p.send(ctx, request, t, endpoint)
	}
	return answer, err
}

// addresses returns where the endpoint may be connected to. Behind a proxy that is one address that nobody knows.
func (p *HTTPProber) addresses(ctx context.Context, endpoint discover.Endpoint) ([]netip.AddrPort, error) {
	if p.dialer.Proxied(endpoint) {
		return []netip.AddrPort{{}}, nil
	}
	return p.dialer.Lookup(ctx, endpoint)
}

// send sends the request on one connection. stale says that it failed on a connection that was there before, without
// an answer and before its time.
func (p *HTTPProber) send(ctx context.Context, request *http.Request, t *target, endpoint discover.Endpoint) (answer reply, stale bool, err error) {
	conn, reused, err := p.pool.conn(ctx, t, endpoint)
	if err != nil {
		return reply{}, false, err
	}
	start := time.Now()
	response, err := conn.RoundTrip(request)
	answer = reply{addr: conn.addr, rtt: time.Since(start)}
	if err != nil {
		if ctx.Err() != nil && answer.rtt >= silenceAfter {
			p.pool.retire(conn) // it may be dead without knowing: the next probe gets a fresh one
		}
		return answer, reused && ctx.Err() == nil, exchangeError(ctx, err)
	}
	answer.status, answer.proto, answer.tls = response.StatusCode, response.Proto, response.TLS
	answer.body, err = io.ReadAll(io.LimitReader(response.Body, maxCountBytes+1))
	_ = response.Body.Close() // an answer that was longer than allowed is cut here, whatever that says
	p.pool.used(conn)
	// When the time is up the connection is told so before it is closed. A server may end its answer upon that, which
	// then looks complete.
	if err != nil || ctx.Err() != nil {
		return answer, false, exchangeError(ctx, err)
	}
	return answer, false, nil
}

// request returns the request of the operation. It names the host as the server knows it.
func (p *HTTPProber) request(ctx context.Context, op string, endpoint discover.Endpoint) *http.Request {
	target := url.URL{Scheme: "https", Host: endpoint.Authority(), Path: countPath}
	method := http.MethodGet
	if p.tls == nil {
		target.Scheme = "http"
	}
	if op == opReserve {
		method, target.Path = http.MethodPost, reservePath
	}
	request := &http.Request{
		Method: method,
		URL:    &target,
		Header: http.Header{"User-Agent": {userAgent}},
		Body:   http.NoBody,
	}
	return request.WithContext(ctx)
}

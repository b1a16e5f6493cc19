// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package balance

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/net/http2"

	"github.com/evenkeel-go/evenkeel/discover"
	"github.com/evenkeel-go/evenkeel/internal/extension"
)

// maxRefusals is how many times a request is made again that the server had no room for: it says how many it takes when a
// crowd may have begun to ask already.
const maxRefusals = 8

// reply is the answer to a request. Only addr is set where a connection brought none.
type reply struct {
	addr   netip.AddrPort
	status int
	header http.Header
	body   []byte // at most one byte longer than the question allows
	rtt    time.Duration
	proto  string
	tls    *tls.ConnectionState
}

// question is what an endpoint is asked.
type question struct {
	endpoint discover.Endpoint
	op       string
	request  ReserveRequest // of opReserve
	id       string         // of opRelease
}

// longest is how long the body of an answer may be.
func (q *question) longest() int64 {
	if q.op == opReserve && q.request.Identify {
		return extension.MaxAnswer
	}
	return maxCountBytes
}

// exchange sends one request to the endpoint and returns the answer. An error is a *ProbeError; the address of the reply
// is set beside it where there was a connection.
func (p *HTTPProber) exchange(ctx context.Context, q question) (reply, error) {
	answer, err := p.call(ctx, q)
	if err != nil {
		return reply{addr: answer.addr}, &ProbeError{Endpoint: q.endpoint, Op: q.op, Addr: answer.addr, Err: err}
	}
	return answer, nil
}

func (p *HTTPProber) call(ctx context.Context, q question) (reply, error) {
	ctx, end, err := p.begin(ctx)
	if err != nil {
		return reply{}, err
	}
	defer end()
	// The request is bound to the name, the connection to an address: the addresses of the name, as they are now.
	request := p.request(ctx, &q)
	q.endpoint.Addrs, err = p.addresses(ctx, q.endpoint)
	if err != nil {
		return reply{}, connectError(ctx, err)
	}
	t, err := p.pool.enter(q.endpoint)
	if err != nil {
		return reply{}, err
	}
	defer p.pool.leave(t)
	again := true
	for refusals := 0; ; {
		answer, stale, err := p.send(ctx, request, t, &q)
		switch {
		case errors.Is(err, errStreamRefused) && refusals < maxRefusals: // the server has not looked at it
			refusals++
		case err != nil && stale && request.Method != http.MethodPost && again:
			// The server had closed the connection while it was idle. Asking again is harmless; reserving again is not.
			again = false
		default:
			return answer, err
		}
	}
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
func (p *HTTPProber) send(ctx context.Context, request *http.Request, t *target, q *question) (answer reply, stale bool, err error) {
	conn, reused, err := p.pool.conn(ctx, t, q.endpoint)
	if err != nil {
		return reply{}, false, err
	}
	start := time.Now()
	response, err := conn.RoundTrip(request)
	answer = reply{addr: conn.addr, rtt: time.Since(start)}
	if err != nil {
		if ctx.Err() != nil && answer.rtt >= silenceAfter {
			p.pool.retire(t, conn, start) // it may be dead without knowing: the next probe gets a fresh one
		}
		if said, ok := errors.AsType[http2.StreamError](err); ok && said.Code == http2.ErrCodeRefusedStream {
			p.pool.heard(t, conn)
			return answer, false, errStreamRefused
		}
		return answer, reused && ctx.Err() == nil, exchangeError(ctx, conn.cause(err))
	}
	answer.status, answer.proto, answer.tls = response.StatusCode, response.Proto, response.TLS
	answer.header = response.Header
	answer.body, err = io.ReadAll(io.LimitReader(response.Body, q.longest()+1))
	_ = response.Body.Close() // an answer that was longer than allowed is cut here, whatever that says
	p.pool.heard(t, conn)
	// When the time is up the connection is told so before it is closed. A server may end its answer upon that, which
	// then looks complete.
	if err != nil || ctx.Err() != nil {
		return answer, false, exchangeError(ctx, err)
	}
	return answer, false, nil
}

// request returns the request of a question. It names the host as the server knows it.
func (p *HTTPProber) request(ctx context.Context, q *question) *http.Request {
	target := url.URL{Scheme: "https", Host: q.endpoint.Authority(), Path: countPath}
	if p.tls == nil {
		target.Scheme = "http"
	}
	request := &http.Request{
		Method: http.MethodGet,
		URL:    &target,
		Header: http.Header{"User-Agent": {userAgent}},
		Body:   http.NoBody,
	}
	switch q.op {
	case opReserve:
		request.Method, target.Path = http.MethodPost, reservePath
		if q.request.Identify {
			request.Header.Set("Accept", extension.JSON)
			if q.request.Bound > 0 {
				target.RawQuery = url.Values{extension.Bound: {strconv.Itoa(min(q.request.Bound, extension.MaxBound))}}.Encode()
			}
		}
	case opRelease:
		request.Method, target.Path = http.MethodDelete, reservePath+"/"+q.id
	}
	return request.WithContext(ctx)
}

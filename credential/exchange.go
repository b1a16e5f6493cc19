// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/evenkeel-go/evenkeel/internal/certerr"
)

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// exchange asks a token endpoint for a token, once. It stands between the OAuth library, which makes the request, and the
// network: the library sees an answer only when it is one, and then in a form of ours, so that none of its errors can quote
// what the other side sent.
type exchange struct {
	place     string
	host      string
	base      http.RoundTripper
	connected atomic.Bool // the request could be on its way; before that no error can hold anything of an answer
	got       answer
	failure   *TokenError
}

// fetchToken asks place for a token for the client.
func fetchToken(ctx context.Context, place Place, id, secret string) (answer, error) {
	x := &exchange{place: place.name(), host: place.host(), base: place.Client.Transport}
	if x.base == nil {
		x.base = http.DefaultTransport
	}
	client := &http.Client{
		Transport:     x,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	config := clientcredentials.Config{
		ClientID: id, ClientSecret: secret, TokenURL: place.URL, AuthStyle: oauth2.AuthStyleInParams,
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { x.connected.Store(true) },
	})
	_, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	switch {
	case x.failure != nil:
		x.failure.Place = x.place
		return answer{}, x.failure
	case err != nil:
		return answer{}, x.broken(ctx, err)
	}
	return x.got, nil
}

// RoundTrip sends the request and judges the answer.
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Accept", "application/json")
	reply, err := x.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxAnswer+1))
	_ = reply.Body.Close() // read as far as it is of use
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		x.failure = &TokenError{Reason: ReasonTooLarge, Status: reply.StatusCode}
	default:
		x.got, x.failure = parseAnswer(reply.StatusCode, body)
	}
	if x.failure != nil {
		return nil, x.failure
	}
	return x.rewritten(req)
}

// rewritten is the answer for the OAuth library.
func (x *exchange) rewritten(req *http.Request) (*http.Response, error) {
	body, err := json.Marshal(map[string]any{
		"access_token": x.got.token, "token_type": "Bearer", "expires_in": int64(x.got.life / time.Second),
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}, nil
}

// broken is the error of an exchange without a whole answer.
func (x *exchange) broken(ctx context.Context, err error) *TokenError {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	e := &TokenError{Place: x.place, Reason: ReasonUnreachable}
	timeout, isNet := errors.AsType[net.Error](err)
	socket, isSocket := errors.AsType[*net.OpError](err)
	switch {
	case ctx.Err() != nil:
		e.Err = context.Cause(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			e.Reason = ReasonTimeout
		}
	case !x.connected.Load():
		e.Err = certerr.Explain(err, x.host)
		if isNet && timeout.Timeout() {
			e.Reason = ReasonTimeout
		}
	case isSocket:
		e.Err = certerr.Explain(socket, x.host)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Err = io.ErrUnexpectedEOF
	default:
		if e.Err = brokenOff(err); e.Err == nil { // a protocol error, which quotes what came
			e.Reason = ReasonMalformed
		}
	}
	return e
}

// brokenOff is the error of a request that the server broke off in HTTP/2; nil for any other. It holds nothing that the server
// wrote, such as the text of a GOAWAY.
func brokenOff(err error) error {
	// The type of net/http is not exported; its As fills in one that looks like it.
	var reset http2.StreamError
	if errors.As(err, &reset) && reset.Cause != nil && reset.Cause.Error() == "received from peer" {
		return fmt.Errorf("the server broke the request off (HTTP/2 %v)", reset.Code)
	}
	for _, lost := range []string{"http2: server sent GOAWAY", "http2: client connection lost"} {
		if strings.HasPrefix(err.Error(), lost) {
			return errors.New("the server closed the connection")
		}
	}
	return nil
}

// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/credential"
)

// planted is a secret that must show up nowhere.
const planted = "pl@nted secret"

// place is where the tokens of these tests come from, when an endpoint makes them.
func place(e *endpoint) credential.Place {
	return credential.Place{URL: "https://node-1.example:35000/connect/token", Client: &http.Client{Transport: e}}
}

// endpoint is a token endpoint in memory, so that tests can run in a bubble. It gives token-1, token-2 and so on.
type endpoint struct {
	mu    sync.Mutex
	asked []time.Time          // guarded by mu
	form  url.Values           // guarded by mu; of the last request
	basic bool                 // guarded by mu; a request had an authorization header
	life  string               // guarded by mu; the expires_in
	delay time.Duration        // guarded by mu
	fail  func() (int, string) // guarded by mu; nil gives tokens
}

func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	content, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(content))
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.asked = append(e.asked, time.Now())
	e.form, e.basic = form, e.basic || req.Header.Get("Authorization") != ""
	code, body, delay := 200, `{"access_token":"token-`+strconv.Itoa(len(e.asked))+`"`, e.delay
	if e.life != "" {
		body += `,"expires_in":` + e.life
	}
	body += "}"
	if e.fail != nil {
		code, body = e.fail()
	}
	e.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader([]byte(body))), Request: req,
	}, nil
}

// set changes what the endpoint does.
func (e *endpoint) set(change func(*endpoint)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e)
}

func (e *endpoint) down() {
	e.set(func(e *endpoint) { e.fail = func() (int, string) { return 503, "down" } })
}
func (e *endpoint) up() { e.set(func(e *endpoint) { e.fail = nil }) }

// times are when the endpoint was asked.
func (e *endpoint) times() []time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]time.Time(nil), e.asked...)
}

func newSource(t *testing.T, change ...func(*credential.ClientCredentialsConfig)) *credential.Source {
	t.Helper()
	config := credential.ClientCredentialsConfig{ClientID: "app", ClientSecret: connstring.NewSecret(planted)}
	for _, c := range change {
		c(&config)
	}
	s, err := credential.NewClientCredentials(config)
	if err != nil {
		t.Fatal(err)
	}
	s.SetRandomForTest(0)
	return s
}

// at makes a Bearer that is closed with the test.
func at(t *testing.T, s *credential.Source, p credential.Place) *credential.Bearer {
	t.Helper()
	b, err := s.At(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// token returns what a call is sent with.
func token(ctx context.Context, b *credential.Bearer) (string, error) {
	md, err := b.GetRequestMetadata(ctx)
	return md["authorization"], err
}

// wantToken fails when a call is not sent with that token.
func wantToken(t *testing.T, b *credential.Bearer, want string) {
	t.Helper()
	if got, err := token(t.Context(), b); err != nil || got != "Bearer "+want {
		t.Errorf("a call is sent with %q, %v, want %q", got, err, "Bearer "+want)
	}
}

// calls is a server that takes some tokens only, as an interceptor sees it.
type calls struct {
	bearer *credential.Bearer
	mu     sync.Mutex
	bad    map[string]bool // guarded by mu
	all    bool            // guarded by mu; every token is bad
	seen   []string        // guarded by mu
}

func (c *calls) invoke(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
	got, err := token(ctx, c.bearer)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, got)
	if c.all || c.bad[got] {
		return status.Error(codes.Unauthenticated, "refused")
	}
	return nil
}

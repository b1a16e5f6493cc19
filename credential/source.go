// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package credential

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
)

// Source is where tokens come from, and the latest of them. It makes a Bearer for each server. There is nothing to close.
type Source struct {
	// fetch asks for a token: the value of the metadata, and how long it lives.
	fetch  func(ctx context.Context, place Place) (header string, life time.Duration, err error)
	placed bool // a place is needed
	random func() float64
	disk   *disk  // nil without a cache on disk
	secret hidden // for which tokens are given; empty for a source of the program's own

	numbers atomic.Uint64
	mu      sync.Mutex
	latest  *token // guarded by mu
}

// ClientCredentialsConfig says who asks for tokens.
type ClientCredentialsConfig struct {
	// ClientID and ClientSecret are the credentials; both are needed.
	ClientID     string
	ClientSecret Secret
	// CacheDir is a folder that keeps tokens, for programs that run for a moment and often: one that is there is used
	// instead of asking, as long as it was given for this secret. It is made when it is missing, its files are for this
	// user alone, and no secret is in them but the tokens. A file counts as none that cannot be read, is a symbolic link,
	// belongs to somebody else or can be read by others; and no file is used or written in a folder that is not this
	// user's (or root's), or that others may write (on Windows, nothing is asked about users). Empty means no such cache.
	CacheDir string
	// CacheFailed is told when a token could not be written there; nil means nobody is.
	CacheFailed func(error)
}

// String tells who asks, and where tokens are kept.
func (c ClientCredentialsConfig) String() string {
	text := "client " + strconv.Quote(c.ClientID) + " (" + mask + ")"
	if c.CacheDir != "" {
		text += ", tokens kept in " + strconv.Quote(c.CacheDir)
	}
	return text
}

// Format prints what String returns, for every verb: a Secret of the program's own may show itself.
func (c ClientCredentialsConfig) Format(state fmt.State, _ rune) { printBare(state, c) }

// LogValue is what String returns.
func (c ClientCredentialsConfig) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText returns what String returns.
func (c ClientCredentialsConfig) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// NewClientCredentials returns a source that asks servers for tokens by the client credentials grant.
func NewClientCredentials(config ClientCredentialsConfig) (*Source, error) {
	if config.ClientID == "" || config.ClientSecret == nil || config.ClientSecret.Reveal() == "" {
		return nil, errors.New("credential: client credentials need an id and a secret")
	}
	s := &Source{placed: true, random: rand.Float64, secret: hide(config.ClientSecret.Reveal())}
	s.fetch = func(ctx context.Context, place Place) (string, time.Duration, error) {
		a, err := fetchToken(ctx, place, config.ClientID, config.ClientSecret.Reveal())
		return "Bearer " + a.token, a.life, err
	}
	if config.CacheDir != "" {
		s.disk = &disk{
			folder: config.CacheDir, client: config.ClientID, secret: s.secret, failed: config.CacheFailed,
		}
	}
	return s, nil
}

// NewTokenSource returns a source that takes tokens from the program's own. It is asked when a token is needed and is to
// keep no token back that is about to expire; a token without expiry is asked for again after an hour. One call of it is
// made at a time. A call that takes more than 5 s fails, and is left to itself. A panic in it is an error.
func NewTokenSource(tokens oauth2.TokenSource) (*Source, error) {
	if tokens == nil {
		return nil, errors.New("credential: no source of tokens")
	}
	own := &ownSource{tokens: tokens, turn: make(chan struct{}, 1)}
	return &Source{random: rand.Float64, fetch: own.fetch}, nil
}

// At returns the credentials for calls to one server, with the latest token of the source to begin with. The caller closes
// it. A source that does not ask servers for tokens looks at Place.Plaintext only.
func (s *Source) At(place Place) (*Bearer, error) {
	if s.placed {
		if err := place.check(); err != nil {
			return nil, err
		}
	}
	b := &Bearer{source: s, place: place, current: s.last(place)}
	b.life, b.end = context.WithCancelCause(context.Background())
	return b, nil
}

// String tells nothing but what it is.
func (s *Source) String() string {
	if s.placed {
		return "source of tokens by client credentials (" + mask + ")"
	}
	return "source of tokens of the program's own (" + mask + ")"
}

// Format prints what String returns, for every verb.
func (s *Source) Format(state fmt.State, _ rune) { printBare(state, s) }

// last is the latest token, which may be that of an earlier program.
func (s *Source) last(place Place) *token {
	s.mu.Lock()
	latest := s.latest
	s.mu.Unlock()
	if latest != nil || s.disk == nil {
		return latest
	}
	header, life, ok := s.disk.load(place.URL)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok && s.latest == nil {
		s.latest = newToken(header, s.numbers.Add(1), time.Now(), life, s.random())
	}
	return s.latest
}

// obtain asks for a token, and keeps it for Bearers to come.
func (s *Source) obtain(ctx context.Context, place Place) (*token, error) {
	asked := time.Now()
	header, life, err := s.fetch(ctx, place)
	if err != nil {
		return nil, err
	}
	t := newToken(header, s.numbers.Add(1), asked, life, s.random())
	if s.disk != nil {
		s.disk.store(place.URL, header, life)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = t
	return t, nil
}

// ownSource is a program's own source of tokens, whose calls cannot be ended.
type ownSource struct {
	tokens oauth2.TokenSource
	turn   chan struct{} // holds a token while a call is going on
}

func (o *ownSource) fetch(ctx context.Context, _ Place) (string, time.Duration, error) {
	type result struct {
		header string
		life   time.Duration
		err    error
	}
	select {
	case o.turn <- struct{}{}:
	case <-ctx.Done():
		return "", 0, &TokenError{Reason: ReasonTimeout, Err: context.Cause(ctx)}
	}
	results := make(chan result, 1)
	go func() { // it outlives ctx when the program's code does
		r := result{err: &TokenError{Reason: ReasonSource, Err: errPanicked}}
		defer func() {
			_ = recover() // its value is the program's, and may hold anything
			<-o.turn
			results <- r
		}()
		header, life, err := judge(o.tokens.Token())
		if err != nil {
			_ = err.Error() // of an error that is a nil pointer, the text is a panic
		}
		r = result{header, life, err}
	}()
	select {
	case r := <-results:
		return r.header, r.life, r.err
	case <-ctx.Done():
		return "", 0, &TokenError{Reason: ReasonTimeout, Err: context.Cause(ctx)}
	}
}

var (
	errPanicked = errors.New("it panicked")
	errNoToken  = errors.New("it gave no token that can be sent")
	errExpired  = errors.New("it gave a token that has expired")
)

// judge makes what a program's source gave fit to be sent. The text of an oauth2.RetrieveError has the answer in it.
func judge(t *oauth2.Token, err error) (string, time.Duration, error) {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		e := &TokenError{Reason: ReasonRefused, Code: knownCode(refused.ErrorCode)}
		if refused.Response != nil {
			e.Status = refused.Response.StatusCode
		}
		if e.Code == "" {
			e.Reason = ReasonStatus
		}
		return "", 0, e
	}
	if err != nil {
		return "", 0, &TokenError{Reason: ReasonSource, Err: err}
	}
	if t == nil || !sendable(t.AccessToken) || !sendable(t.Type()) {
		return "", 0, &TokenError{Reason: ReasonSource, Err: errNoToken}
	}
	life := unknownLife
	if !t.Expiry.IsZero() {
		life = min(time.Until(t.Expiry), maxLife)
	}
	if life <= 0 {
		return "", 0, &TokenError{Reason: ReasonSource, Err: errExpired}
	}
	return t.Type() + " " + t.AccessToken, life, nil
}

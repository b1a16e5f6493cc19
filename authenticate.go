// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package evenkeel

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"golang.org/x/oauth2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel-go/evenkeel/connstring"
	"github.com/evenkeel-go/evenkeel/credential"
	"github.com/evenkeel-go/evenkeel/discover"
)

// ErrUnauthenticated is found by errors.Is in the error of a server that refuses the client: at its token endpoint, when the
// session begins, or in answer to a call. Trying that server again does not help before somebody changes something.
var ErrUnauthenticated = errors.New("the server refuses the client's credentials")

// WithTokenSource takes tokens from ts instead of asking servers for them. It contradicts credentials in the connection
// string, and auth=none there. It is asked when a token is needed or was refused, a call at a time; one that takes more
// than 5 s fails the calls that wait for it.
func WithTokenSource(ts oauth2.TokenSource) Option {
	return optionFunc(func(c *config) { c.tokens = ts })
}

// WithTokenCache keeps tokens in files of that folder, for programs that run for a moment and often: credentials of the
// connection string are then not exchanged for a token each time, as long as they are the same. The files are for this
// user alone; who can read them can act as the client until the token expires. As with the keys of ssh, what others than
// this user may write, made or lead elsewhere by a symbolic link is not believed: the folder must be this user's or
// root's, and others must not be able to write it (nothing of that is looked at on Windows). A failure to write a file is
// logged, and nothing else. Without a user and a password in the connection string there is nothing to keep: that is a
// contradiction, as WithTokenSource is.
func WithTokenCache(folder string) Option {
	return optionFunc(func(c *config) { c.tokenCache = folder })
}

// authenticator makes the credentials for the connections to one server. Its zero value makes none.
type authenticator struct {
	tokens *credential.Source
	shown  shown // with tokens: where they are from
	apiKey credential.Secret
	tls    *tls.Config // nil for plaintext
	dialer dialer
}

// checkCredentials reports contradictions about who the client is.
func (c *config) checkCredentials(cs *connstring.ConnString) error {
	var errs []error
	mode := cs.AuthMode()
	switch {
	case c.tokens != nil && cs.AuthNone:
		errs = append(errs, errors.New("WithTokenSource contradicts auth=none in the connection string: use one of them"))
	case c.tokens != nil && mode != connstring.AuthModeNone:
		errs = append(errs, errors.New("WithTokenSource contradicts the credentials in the connection string ("+string(mode)+
			"): use one of them"))
	}
	switch {
	case c.tokenCache == "":
	case c.tokens != nil:
		errs = append(errs, errors.New("WithTokenCache contradicts WithTokenSource, which is to keep its own tokens: use one of them"))
	case mode != connstring.AuthModeClientCredentials:
		errs = append(errs, errors.New("WithTokenCache keeps the tokens of a user and a password, and the connection string has none: "+
			"leave it out, or write user:password@ before the hosts"))
	}
	return errors.Join(errs...)
}

// authentication is how the clients of a Conn prove who they are.
func (c *config) authentication(cs *connstring.ConnString, d dialer) (authenticator, error) {
	a := authenticator{tls: c.tlsConfig(cs), dialer: d}
	var err error
	switch {
	case c.tokens != nil:
		a.shown = ownTokens
		a.tokens, err = credential.NewTokenSource(c.tokens)
	case cs.AuthMode() == connstring.AuthModeClientCredentials:
		a.shown = aPassword
		a.tokens, err = credential.NewClientCredentials(credential.ClientCredentialsConfig{
			ClientID: cs.Username, ClientSecret: cs.Password, CacheDir: c.tokenCache, CacheFailed: c.cacheFailed,
		})
	case cs.AuthMode() == connstring.AuthModeAPIKey:
		a.apiKey = cs.APIKey
		_, err = credential.NewAPIKey(cs.APIKey, credential.Place{})
	}
	return a, err
}

// cacheFailed tells the log that a token could not be kept.
func (c *config) cacheFailed(err error) {
	if c.logger != nil {
		c.logger.Warn("evenkeel: the token cache cannot be written", "error", err.Error())
	}
}

// shown is what a client shows to say who it is.
type shown uint8

const (
	nothing shown = iota
	aPassword
	aKey
	ownTokens
)

// hint says what a person can do when a server refuses it.
func (s shown) hint() string {
	switch s {
	case aPassword:
		return "check the user and the password in the connection string"
	case aKey:
		return "a server that asks for tokens looks at no API key: give a user and a password instead"
	case ownTokens:
		return "check the program's own source of tokens"
	default:
		return "the client gives no credentials: put user:password@ in front of the host in the connection string"
	}
}

// refusedError is the error of a server that refuses what the client shows.
type refusedError struct {
	shown shown
	cause error
}

func (e *refusedError) Error() string   { return ErrUnauthenticated.Error() + ": " + e.cause.Error() }
func (e *refusedError) Unwrap() []error { return []error{ErrUnauthenticated, e.cause} }

// identity is what the calls of one generation carry. A nil one carries nothing.
type identity struct {
	shown   shown
	bearer  *credential.Bearer // nil with an API key
	options []grpc.DialOption
	scrub   func(length int, text string) string // takes secrets out of the beginning of what the server says
}

// at makes the identity for a server, whose address is known.
func (a *authenticator) at(endpoint discover.Endpoint) (*identity, error) {
	place := credential.Place{Plaintext: a.tls == nil}
	switch {
	case a.apiKey != nil:
		key, err := credential.NewAPIKey(a.apiKey, place)
		return &identity{shown: aKey, options: key.DialOptions(), scrub: key.ScrubFirst}, err
	case a.tokens == nil:
		return nil, nil
	}
	place.URL = "https://" + endpoint.Authority() + credential.TokenPath
	http := credential.HTTPConfig{Dial: a.dial(endpoint)}
	if place.Plaintext {
		place.URL, http.Plaintext = "http://"+endpoint.Authority()+credential.TokenPath, true
	} else {
		http.TLS = a.tls.Clone()
		http.TLS.ServerName = endpoint.VerifyName()
	}
	place.Client = credential.NewHTTPClient(http)
	bearer, err := a.tokens.At(place)
	if err != nil {
		return nil, err
	}
	return &identity{shown: a.shown, bearer: bearer, options: bearer.DialOptions(), scrub: bearer.ScrubFirst}, nil
}

// dial leads every connection to the one address of the attempt.
func (a *authenticator) dial(endpoint discover.Endpoint) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dialer.Dial(ctx, endpoint) }
}

// dialOptions are the options of the generation's connections.
func (i *identity) dialOptions() []grpc.DialOption {
	if i == nil {
		return nil
	}
	return i.options
}

// ready waits until there is a token, where there has to be one.
func (i *identity) ready(ctx context.Context) error {
	if i == nil || i.bearer == nil {
		return nil
	}
	err := i.bearer.Ready(ctx)
	if errors.Is(err, credential.ErrRefused) {
		return i.refused(err)
	}
	return err
}

// refused is the error of a server that refuses what the client shows.
func (i *identity) refused(err error) error {
	if i == nil {
		return &refusedError{shown: nothing, cause: err}
	}
	return &refusedError{shown: i.shown, cause: err}
}

// scrubbed are the beginnings of texts of the server, without the secrets that it was sent: as much as is ever shown.
// Those in the errors of calls are gone already.
func (i *identity) scrubbed(texts ...string) []string {
	if i == nil || i.scrub == nil {
		return texts
	}
	clean := make([]string, len(texts))
	for n, text := range texts {
		clean[n] = i.scrub(maxText, text)
	}
	return clean
}

// renewable says that another token may be had when one was refused.
func (i *identity) renewable() bool { return i != nil && i.bearer != nil }

// close ends what is going on.
func (i *identity) close() {
	if i.renewable() {
		i.bearer.Close()
	}
}

// refusedClient says that the error of a call is about who made it. A session that has begun and is refused later is lost
// like any other.
func refusedClient(err error) bool {
	if err == nil || errors.Is(err, io.EOF) {
		return false
	}
	code := status.Code(err)
	return code == codes.Unauthenticated || code == codes.PermissionDenied
}

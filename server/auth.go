// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/evenkeel-go/evenkeel/connstring"
)

// TokenPath is where a server with clients of its own gives tokens.
const TokenPath = "/connect/token"

// maxToken is how long a token may be that is looked at.
const maxToken = 32 << 10

// errNotValid is what a caller is told of a token that is not good here, for whatever reason.
var errNotValid = errors.New("the token is not valid here, or has expired")

// AuthClient is somebody who may ask for tokens.
type AuthClient struct {
	ID     string
	Secret connstring.Secret
}

// AuthConfig says who may call. Zero and negative numbers mean their defaults. NewAuthenticator copies it.
type AuthConfig struct {
	// Clients may ask the token endpoint for tokens. Without any there is no token endpoint.
	Clients []AuthClient
	// Verify judges tokens that were not given by this server, such as those of an identity provider; nil refuses them. It
	// is called at the beginning of each call and request that needs a token, at the same time by many, and holds up that
	// one only. Its error is not shown to the caller.
	Verify func(ctx context.Context, token string) error

	// TokenKey makes the tokens of this server valid on every server with the same key, and valid after a restart: for
	// stock clients, some of which ask the first server of their list and go to another. At least 32 bytes that nobody can
	// guess; empty means that tokens are good here only. With it MaxTokens means nothing.
	TokenKey connstring.Secret
	// TokenLife is how long a token is valid. Default 1 h; at least 1 s.
	TokenLife time.Duration
	// MaxTokens bounds the tokens that are valid at a time; beyond it the oldest is valid no more. Default 65536, which is
	// about 10 MB.
	MaxTokens int
	// FailureRate is how many requests for a token a second may be refused to one address (an IPv6 /64 counts as one), and
	// FailureBurst how many at once. Beyond it all requests for tokens from there get 429. Defaults 1 and 20.
	FailureRate  float64
	FailureBurst int

	// Logger is told of refusals, at debug level; nil means silence.
	Logger *slog.Logger
}

// Authenticator gives tokens and checks them. It can be used without a Server, in any gRPC or HTTP server. It is safe for
// concurrent use, and there is nothing to close.
//
// Without a TokenKey tokens are random and known to this Authenticator only: they are not valid on other servers, nor after a
// restart. Evenkeel's client asks for another one then.
type Authenticator struct {
	secrets map[string]*secretDigest // by client id
	nobody  *secretDigest            // the digest of no secret
	verify  func(context.Context, string) error
	tokens  *liveTokens
	shared  *sharedTokens // nil without a key
	logger  *slog.Logger

	mu       sync.Mutex
	failures *limiter // guarded by mu
}

// secretDigest is the digest of a secret. It is kept behind a pointer, because fmt prints what is inside of unexported fields
// without asking their methods.
type secretDigest [sha256.Size]byte

func digestOf(secret string) *secretDigest {
	digest := secretDigest(sha256.Sum256([]byte(secret)))
	return &digest
}

// NewAuthenticator returns an authenticator, or an error that names all that is wrong with the configuration.
func NewAuthenticator(config AuthConfig) (*Authenticator, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Authenticator{
		secrets: make(map[string]*secretDigest, len(config.Clients)),
		verify:  config.Verify,
		tokens:  newLiveTokens(max(positiveOr(config.TokenLife, time.Hour), time.Second), positiveOr(config.MaxTokens, 65536)),
		failures: newLimiter(
			positiveOr(config.FailureRate, 1), positiveOr(config.FailureBurst, 20)),
		logger: config.Logger,
		nobody: new(secretDigest),
	}
	_, _ = rand.Read(a.nobody[:]) // it never fails, says its documentation
	var faults []error
	switch key := config.TokenKey.Reveal(); {
	case len(key) >= minTokenKey:
		a.shared = newSharedTokens(key, a.tokens.life)
	case key != "":
		faults = append(faults, errors.New("auth config: the key of tokens has less than 32 bytes"))
	}
	if len(config.Clients) == 0 && config.Verify == nil {
		faults = append(faults, errors.New("auth config: neither Clients nor Verify: nobody could call"))
	}
	for _, client := range config.Clients {
		switch _, twice := a.secrets[client.ID]; {
		case client.ID == "" || client.Secret.IsZero():
			faults = append(faults, errors.New("auth config: a client without an id or without a secret"))
		case twice:
			faults = append(faults, errors.New("auth config: two clients with the same id"))
		}
		a.secrets[client.ID] = digestOf(client.Secret.Reveal())
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return a, nil
}

// checkClient says whether these are the credentials of a client, in a time that tells nothing of the secret.
func (a *Authenticator) checkClient(id, secret string) bool {
	want, known := a.secrets[id]
	if !known {
		want = a.nobody
	}
	got := digestOf(secret)
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && known
}

// checkHeader checks the value of an authorization header or metadata.
func (a *Authenticator) checkHeader(ctx context.Context, value string) error {
	scheme, token, ok := strings.Cut(value, " ")
	token = strings.TrimSpace(token)
	if !ok || !strings.EqualFold(scheme, "bearer") || token == "" || len(token) > maxToken {
		return errNotValid
	}
	if now := time.Now(); a.tokens.valid(token, now) || a.shared != nil && a.shared.valid(token, now) {
		return nil
	}
	if a.verify != nil && a.verify(ctx, token) == nil {
		return nil
	}
	return errNotValid
}

// issue makes a token.
func (a *Authenticator) issue(now time.Time) string {
	if a.shared != nil {
		return a.shared.issue(now)
	}
	return a.tokens.issue(now)
}

// blocked says whether an address has been refused tokens too often of late.
func (a *Authenticator) blocked(from source, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failures.spent(from, now)
}

// mayTell says whether an address may learn what came of a request of its, and counts it when it was refused. Any number of
// requests can be begun before the first of them is refused: nobody learns from more of them than may be refused.
func (a *Authenticator) mayTell(from source, now time.Time, refused bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if refused {
		return a.failures.allow(from, now)
	}
	return !a.failures.spent(from, now)
}

// String tells nothing but what it is: digests of secrets can be tried out.
func (a *Authenticator) String() string { return "authenticator" }

// Format prints what String returns, for every verb.
func (a *Authenticator) Format(state fmt.State, _ rune) {
	_, _ = io.WriteString(state, a.String()) // a fmt.State keeps it in memory
}
